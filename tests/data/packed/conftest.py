"""What the tests of packed data share: a folder of small images with unknown pairs and a label tree."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_array

from tagloom.data.packed import packing
from tagloom.data.table import LabelTable

COUNT = 23
# Shards need the extra `parquet`; in the small install only tars are tables.
SHARDS = [
    "test_addresses.py",
    "test_footer.py",
    "test_hostile_shards.py",
    "test_hostile_text.py",
    "test_packing.py",
    "test_shards.py",
]
collect_ignore = SHARDS if find_spec("pyarrow") is None else []


@pytest.fixture
def small_groups(monkeypatch):
    """Row groups of four images, so that a few images make many of them."""
    monkeypatch.setattr(packing, "GROUP_IMAGES", 4)


@pytest.fixture
def photos(tmp_path: Path) -> LabelTable:
    """Images of random pixels; pairs are positive, negative or unknown, and dogs are animals."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for row in range(COUNT):
        Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(folder / f"{row}.png")
    dogs, cars = rng.random((2, COUNT)) < 0.4
    positive = np.stack([dogs, dogs | (rng.random(COUNT) < 0.3), cars], axis=1)
    unknown = ~positive & (rng.random((COUNT, 3)) < 0.3)
    return LabelTable(
        folder,
        [f"{row}.png" for row in range(COUNT)],
        ("dog", "animal", "car"),
        csr_array(positive),
        csr_array(unknown),
        source="photos",
        classes_given=True,
        parents={"dog": "animal"},
    )
