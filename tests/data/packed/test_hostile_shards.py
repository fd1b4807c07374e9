"""Shards from strangers: damaged, lying or made to fill memory. Only our own errors come out."""

import json
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tagloom.data import load_table
from tagloom.data.audit import audit
from tagloom.data.packed import shards
from tagloom.data.packed.packing import pack
from tagloom.errors import DataError, TagloomError


def rewritten(source: Path, target: Path, columns: dict | None = None, about: dict | None = None) -> Path:
    """Write a shard anew, with other columns or with other words about its labels."""
    table = parquet.read_table(source)
    metadata = dict(table.schema.metadata)
    metadata[b"tagloom"] = json.dumps({**json.loads(metadata[b"tagloom"]), **(about or {})}).encode()
    for name, values in (columns or {}).items():
        at = table.schema.get_field_index(name)
        table = table.drop_columns([name]) if values is None else table.set_column(at, name, values)
    parquet.write_table(table.replace_schema_metadata(metadata), target)
    return target


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"format": 99}, "packed in format 99"),
        ({"classes": "dog"}, "is not a list of names"),
        ({"classes": ["dog", 7, "car"]}, "is not a name"),
        ({"classes": ["dog", "animal", "car", "car"]}, "class names must differ"),
        ({"classes": ["dog"]}, r"label '(animal|car)' is not one of its 1 classes"),
        ({"parents": {"dog": ["animal"]}}, "is not a name"),
        ({"parents": {"dog": "animal", "animal": "dog"}}, "dog"),
        ({"images": -1}, "is not a number of rows"),
        ({"first": "0"}, "is not a number of rows"),
        ({"unlisted": "perhaps"}, "is none of negative, unknown"),
        ({"images": 10**30}, "holds 23 of"),
    ],
)
def test_what_a_shard_says_about_its_labels_is_checked(photos, tmp_path, about, message):
    pack(photos, tmp_path / "good")
    (tmp_path / "bad").mkdir()
    rewritten(tmp_path / "good" / "train-00000.parquet", tmp_path / "bad" / "train-00000.parquet", about=about)
    with pytest.raises(DataError, match=message):
        audit(load_table(tmp_path / "bad"))


def test_columns_that_are_not_what_was_packed_are_refused(photos, tmp_path):
    pack(photos, tmp_path / "good")
    good, bad = tmp_path / "good" / "train-00000.parquet", tmp_path / "bad.parquet"
    with pytest.raises(DataError, match="lacks one of the columns image, labels, unknown"):
        load_table(rewritten(good, bad, {"unknown": None}))
    with pytest.raises(DataError, match="lacks one of the columns"):
        load_table(rewritten(good, bad, {"labels": pa.array([7] * len(photos))}))
    with pytest.raises(DataError, match="a label is null"):
        load_table(rewritten(good, bad, {"labels": pa.array([[None]] * len(photos), pa.list_(pa.string()))}))
    every = pa.array([["dog"]] * len(photos), pa.list_(pa.string()))
    with pytest.raises(DataError, match="both as positive and as an exception"):
        load_table(rewritten(good, bad, {"labels": every, "unknown": every}))
    missing = pa.array([None] * len(photos), pa.list_(pa.string()))
    assert not load_table(rewritten(good, bad, {"labels": missing})).positive.nnz


def test_a_small_file_that_grows_to_gigabytes_is_read_up_to_the_cap(tmp_path, monkeypatch):
    """One picture of 1 MB, repeated 20,000 times by reference in a file of 1 MB: 20 GB."""
    picture = np.random.default_rng(0).bytes(2**20)
    image = pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), pa.array([picture]))], ["bytes"]
    )
    table = pa.table({"image": image, "labels": [["cat"]] * 20_000})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=20_000, dictionary_pagesize_limit=2**24)
    assert (tmp_path / "t.parquet").stat().st_size < 3_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(shards, "MAX_GROUP_BYTES", 64 * 2**20)
    loaded = load_table(tmp_path / "t.parquet")
    found = audit(loaded.select([0, 19_999]))
    assert [problem.finding for problem in found.problems][-1].startswith(
        "cannot be read from its shard (its row group holds more than 64 MiB of pictures)"
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # KiB


@pytest.mark.fuzz
def test_flipped_and_cut_shards_raise_only_our_errors(photos, tmp_path, small_groups, fuzz_rounds):
    rng = np.random.default_rng()
    pack(photos, tmp_path / "good")
    good = (tmp_path / "good" / "train-00000.parquet").read_bytes()
    labels_at = good.rfind(b"tagloom")  # everything from here on is the footer
    refused = broken = 0
    for number in range(fuzz_rounds(1500)):
        data = bytearray(good)
        low = labels_at if rng.random() < 0.5 else 0
        for place in rng.integers(low, len(data), rng.integers(1, 6)).tolist():
            data[place] = int(rng.integers(0, 256))
        if rng.random() < 0.2:
            data = data[: int(rng.integers(0, len(data)))]
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(data)
        try:
            broken += bool(audit(load_table(path)).problems)
        except TagloomError:
            refused += 1
        path.unlink()
    assert refused
    assert broken or fuzz_rounds(1500) < 100
