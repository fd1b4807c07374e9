"""`python -m tagloom.cli` is `tagloom`."""

from tagloom.cli import main

main()
