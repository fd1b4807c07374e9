"""`python -m tagloom` is the command `tagloom`."""

from tagloom.cli import main

main()
