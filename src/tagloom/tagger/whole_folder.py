"""A tagger folder that appears whole or not at all, and overwrites nothing."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tagloom.errors import TagloomError
from tagloom.tagger.spec import SPEC_FILE


def check_free(out: Path, names: Sequence[str]) -> None:
    """Refuse a folder in which something would be overwritten; `--out .` is quickly typed."""
    if (out / SPEC_FILE).exists():
        raise TagloomError(f"{out}: holds a tagger. Name another --out, or delete that tagger first.")
    if taken := [name for name in names if (out / name).exists()]:
        raise TagloomError(
            f"{out}: holds a {' and a '.join(taken)} that would be overwritten. Name another --out, best a new folder."
        )


def move_into(made: Path, out: Path) -> None:
    """Move the finished files to their folder; `tagger.json` last, because it makes the folder a tagger."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in sorted(made.iterdir(), key=lambda file: file.name == SPEC_FILE):
            shutil.move(file, out / file.name)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be written ({error}). Name another --out.") from error
