"""The ready tagger, which `tagloom predict photo.jpg` and `tagloom.load()` use if no other is named.

This folder is an ordinary tagger folder: `tagger.json`, `model.onnx` and the model card `README.md`, as
`tagloom export RUN --float16 --out src/tagloom/ready` writes them. Whoever writes another one changes `SHA256` with it.
"""

import hashlib
from importlib import resources
from pathlib import Path

from tagloom.errors import TaggerError

SHA256 = "63348cd64663f500a85458716d9bf652702d9182fb57c96034cac0da8f7227df"  # of model.onnx


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
    folder = Path(str(resources.files(__name__)))
    network = folder / "model.onnx"
    if network.is_file():
        with network.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()  # of 12 MB: about 10 ms
        if found != SHA256:
            raise TaggerError(
                f"{network}: is not the network that ships with Tagloom: its SHA-256 is {found}, expected {SHA256}. "
                "Install Tagloom again."
            )
    return folder
