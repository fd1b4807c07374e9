"""The taggers that come with the package.

`tagloom predict photo.jpg` and `tagloom.load()` use the ready tagger, of 80 labels, if no other is named. The any-word
tagger, `tagloom:any`, scores any label that somebody types; `tagloom predict photo.jpg --labels …` uses it.

Both are ordinary tagger folders, as `tagloom export RUN --float16` writes them: this one, and `any` inside it. Whoever
writes another one changes `SHA256` with it.
"""

import hashlib
from importlib import resources
from pathlib import Path

from tagloom.errors import TaggerError

ANY_WORD = "tagloom:any"
"""The name of the any-word tagger, wherever a tagger can be named."""
SHA256 = {  # of each model.onnx, by its folder
    ".": "63348cd64663f500a85458716d9bf652702d9182fb57c96034cac0da8f7227df",
    "any": "c300d88dd3c14e229fe2553150850c268fd9776c15892590bf268f5dc168db10",
}


def ready_folder() -> Path:
    """Give the folder of the ready tagger."""
    return _checked_folder(".", "no tagger was named, and the ready tagger")


def any_word_folder() -> Path:
    """Give the folder of the any-word tagger."""
    return _checked_folder("any", "the any-word tagger")


def comes_with_tagloom(name: object) -> bool:
    """Whether a name, or None, stands for a tagger that comes with the package."""
    return name is None or name == ANY_WORD


def _checked_folder(part: str, who: str) -> Path:
    folder = _shipped_folder(part)
    if not folder.joinpath("tagger.json").is_file():
        raise TaggerError(
            f"{who} is missing from this installation of Tagloom. Install it again, or name a tagger before the "
            "images: tagloom predict RUN photo.jpg, where RUN is the --out of a 'tagloom train' or hf-hub:owner/name."
        )
    return folder


def _shipped_folder(part: str) -> Path:
    folder = Path(str(resources.files(__name__))) / part
    network = folder / "model.onnx"
    if network.is_file():
        with network.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()  # of 12 MB: about 10 ms
        if found != SHA256[part]:
            raise TaggerError(
                f"{network}: is not the network that ships with Tagloom: its SHA-256 is {found}, expected "
                f"{SHA256[part]}. Install Tagloom again."
            )
    return folder
