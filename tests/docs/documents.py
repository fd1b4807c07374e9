"""Reading README, CONTRIBUTING and docs: their code blocks, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/index.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "index.md" or path.parent.name != "docs"),
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line it starts on."""

    language: str
    text: str
    line: int


def page_name(path: Path) -> str:
    """Name a page as a reader knows it."""
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[Block]:
    """List the fenced blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text[: found.start()].count("\n") + 2) for found in _BLOCK.finditer(text)]


def shell_lines(block: Block) -> Iterator[str]:
    """Give the commands of a shell block, each in a line, without comments."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if command := re.sub(r"(^|\s+)# .*$", "", line).strip():
            yield command


def inline_code(path: Path) -> Iterator[str]:
    """Give the code that stands within the prose of a page, each in a line."""
    for found in _INLINE.finditer(_BLOCK.sub("", path.read_text(encoding="utf-8"))):
        yield " ".join(found[1].split())


def arguments(command: str) -> list[str] | None:
    """Give what follows `tagloom` in a command, or None for another command; drops environment settings."""
    words = shlex.split(command)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return words[1:] if words and words[0] == "tagloom" else None
