"""Doctests at the end of a docstring as code on its page. Without a heading they would be taken for prose."""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!\n).+\n?)*)+", re.MULTILINE)


class FencedDoctests(griffe.Extension):
    """Put a fence around every doctest that stands at the left margin of a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one function, class or module."""
        if obj.docstring is not None and obj.docstring.value.find(">>> ") >= 0:
            obj.docstring.value = _DOCTEST.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    return f"```pycon\n{match.group().rstrip()}\n```\n"
