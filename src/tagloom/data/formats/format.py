"""How a format describes itself to `load_table`."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tagloom.data.table import LabelTable


class Format(NamedTuple):
    """A format of label tables. Each format module ends with its own."""

    name: str
    """What people call it."""
    given: str
    """What to pass to `load_table`, in words: "a COCO instances .json file"."""
    recognises: Callable[[Path], bool]
    """Whether a path is of this format."""
    read: Callable[..., LabelTable]
    """Called with the path, the classes wanted (or None) and the options."""
    options: tuple[str, ...] = ()
    """Names of the options that `read` takes."""
    suggested: bool = True
    """Whether to suggest a file of this format to users who passed the folder that contains it."""
