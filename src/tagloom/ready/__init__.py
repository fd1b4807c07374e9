"""The ready tagger, which `tagloom predict photo.jpg` and `tagloom.load()` use if no other is named.

This folder is an ordinary tagger folder: `tagger.json`, `model.onnx` and the model card `README.md`, as
`tagloom export RUN --float16 --out src/tagloom/ready` writes them.
"""

from importlib import resources
from pathlib import Path

from tagloom.errors import TaggerError


def ready_folder() -> Path:
    """Give the folder of the ready tagger."""
    folder = _shipped_folder()
    if not folder.joinpath("tagger.json").is_file():
        raise TaggerError(
            "no tagger was named, and the ready tagger is missing from this installation of Tagloom. Install it again, "
            "or name a tagger before the images: tagloom predict RUN photo.jpg, where RUN is the --out of a "
            "'tagloom train' or hf-hub:owner/name."
        )
    return folder


def _shipped_folder() -> Path:
    return Path(str(resources.files(__name__)))
