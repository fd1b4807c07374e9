"""Images and their labels: tables, formats, safe decoding, transforms, audits and the built-in data set.

The two names below are loaded on first use, so that `import tagloom.data` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tagloom.data.formats import load_table
    from tagloom.data.table import LabelTable

__all__ = ["LabelTable", "load_table"]

_HOMES = {"LabelTable": "tagloom.data.table", "load_table": "tagloom.data.formats"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
