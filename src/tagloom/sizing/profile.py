"""A machine's profile: what an image and a label cost there, in a small JSON file that can be measured or written."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tagloom.checks import check_positive
from tagloom.errors import DataError, RecipeError, TagloomError
from tagloom.files import is_file, whole_file
from tagloom.recipe.filling import fill
from tagloom.recipe.plain_data import read_json

PROFILE_FILE = "profile.json"
FORMAT = 1
MAX_PROFILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Profile:
    """What a machine does. The device is its GPU, one of them, or where there is none all its cores together.

    Attributes:
        machine: Which machine it is.
        device: "cpu", or the GPU's name.
        source: Where the figures come from: "measured" with the date, or for a written profile the publication.
        network: Recipe, backbone, head and picture size that were measured.
        cores: Cores of the machine.
        memory_bytes: Its memory.
        decode_rate: Images per second that one core reads from memory, decodes and resizes.
        extract_rate: Images per second that the device runs through the backbone.
        head_seconds_per_image: Of a training step on the device, for each image, however many labels there are.
        head_seconds_per_label: What each label adds to that, for each image.
        read_rate: Bytes per second that the disk gives.
        image_bytes: Mean size of an image file.
        feature_bytes: What the feature cache stores per image and view.
        head_bytes: Weights of the head without labels.
        head_bytes_per_label: What each label adds to them.
        format: Version of this file's format.
    """

    machine: str
    device: str
    source: str
    network: str
    cores: float
    memory_bytes: float
    decode_rate: float
    extract_rate: float
    head_seconds_per_image: float
    head_seconds_per_label: float
    read_rate: float
    image_bytes: float
    feature_bytes: float
    head_bytes: float
    head_bytes_per_label: float
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise DataError(f"has format {self.format}, but this Tagloom reads format {FORMAT}. Upgrade tagloom.")
        for entry in fields(self):
            if entry.type in (float, "float"):
                check_positive(entry.name, getattr(self, entry.name))


def read_profile(path: Path) -> Profile:
    """Read a profile; it may come from anybody."""
    if not is_file(path):
        raise DataError(f"{path}: no such profile. Measure a machine there: tagloom plan --measure --profile {path}")
    try:
        return fill(Profile, read_json(path, MAX_PROFILE_BYTES), str(path))
    except RecipeError as error:
        raise DataError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            partial.write_text(json.dumps(asdict(profile), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise TagloomError(f"{path}: cannot be written ({error}). Name another file with --profile.") from error
