"""`python -m tagloom.cli` is the command `tagloom`, as is `python -m tagloom`."""

from tagloom.cli import main

main()
