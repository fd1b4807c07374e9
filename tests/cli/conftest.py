"""What tests of the command share."""

import sys

import pytest

from tagloom.cli import main


@pytest.fixture
def tagloom(monkeypatch, capsys):
    """Run the command in this process and give its exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        code: object = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return code, captured.out, captured.err

    return run
