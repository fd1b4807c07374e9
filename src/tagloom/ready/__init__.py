"""The ready tagger: what `tagloom predict photo.jpg` and `tagloom.load()` use where no other is named.

It is an ordinary tagger folder, this one: `tagger.json`, `model.onnx` and the model card `README.md`, as
`tagloom export RUN --float16 --out src/tagloom/ready` writes them.
"""

from importlib import resources
from pathlib import Path

from tagloom.errors import TaggerError


def ready_folder() -> Path:
    """Give the folder of the ready tagger."""
    if not _place().joinpath("tagger.json").is_file():
        raise TaggerError(
            "no tagger was named, and the ready one is missing from this installation of Tagloom. Install it again, or "
            "name one before the pictures: tagloom predict RUN photo.jpg, where RUN is the --out of a 'tagloom train' "
            "or hf-hub:owner/name."
        )
    return _place()


def _place() -> Path:
    return Path(str(resources.files(__name__)))
