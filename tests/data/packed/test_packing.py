"""`pack` writes any table as Parquet shards, and `load_table` reads them back: the same rows, pairs, tree and bytes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy.sparse import csr_array

from tagloom.data import load_table
from tagloom.data.audit import audit
from tagloom.data.images import open_image, read_image
from tagloom.data.packed import packing
from tagloom.data.packed.packing import pack
from tagloom.data.table import LabelTable
from tagloom.data.tree_labels import with_paths
from tagloom.errors import DataError

# No file name has a zero character. A surrogate stands for a byte that is not UTF-8; names of classes have none.
IMAGE_NAMES = st.text(st.characters(exclude_characters="\0", max_codepoint=0xDCFF, min_codepoint=1), min_size=1).filter(
    lambda name: not any("\ud800" <= sign < "\udc80" for sign in name)
)
CLASS_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def assert_same_table(ours: LabelTable, theirs: LabelTable) -> None:
    every = np.arange(len(theirs))
    assert ours.images == theirs.images
    assert ours.classes == theirs.classes
    assert (ours.targets(every) == theirs.targets(every)).all()
    assert (ours.known(every) == theirs.known(every)).all()
    for name in ("unlisted", "task", "classes_given", "negatives_stated", "parents"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.fingerprint() == theirs.fingerprint()


@st.composite
def tables(draw) -> LabelTable:
    images = draw(st.lists(IMAGE_NAMES, min_size=1, max_size=9, unique=True))
    classes = draw(st.lists(CLASS_NAMES, min_size=1, max_size=5, unique=True))
    pairs = draw(st.lists(st.sampled_from("+-?"), min_size=len(images) * len(classes), max_size=len(images) * 5))
    marks = np.array(pairs[: len(images) * len(classes)]).reshape(len(images), len(classes))
    unlisted = draw(st.sampled_from(["negative", "unknown"]))
    exceptions = marks == ("?" if unlisted == "negative" else "-")
    above = {name: draw(st.sampled_from([None, *classes[:number]])) for number, name in enumerate(classes)}
    return LabelTable(
        Path("nowhere"),
        images,
        tuple(classes),
        csr_array(marks == "+"),
        csr_array(exceptions) if exceptions.any() or draw(st.booleans()) else None,
        unlisted=unlisted,
        task=draw(st.sampled_from(["multi", "single"])),
        classes_given=draw(st.booleans()),
        negatives_stated=draw(st.booleans()),
        parents={name: parent for name, parent in above.items() if parent is not None},
    )


@given(table=tables())
@settings(max_examples=60)
def test_every_table_comes_back_as_it_was(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("shards")
    done = pack(table, out)
    assert len(done.unreadable) == len(table)  # no such files: rows stay all the same
    assert_same_table(load_table(out), with_paths(table))


def test_pictures_go_in_byte_for_byte_and_an_unreadable_one_keeps_its_row(photos, tmp_path, small_groups):
    (photos.root / "5.png").unlink()
    (photos.root / "6.png").write_bytes(b"not a picture")
    done = pack(photos, tmp_path / "shards", shard_bytes=4000)
    table = load_table(tmp_path / "shards")
    assert len(done.shards) > 2
    assert [error.path for error in done.unreadable] == [str(photos.path(5))]
    assert_same_table(table, photos)
    for row in set(range(len(photos))) - {5}:
        assert read_image(table.image(row)) == photos.path(row).read_bytes()
    found = audit(table)
    assert [(problem.image, problem.kind) for problem in found.problems] == [("5.png", "missing"), ("6.png", "format")]
    assert str(table.image(3)).endswith(".parquet/3.png")
    assert open_image(table.image(3)).size == (16, 12)


def test_other_programs_read_pictures_labels_and_unknown_pairs(photos, tmp_path):
    pack(photos, tmp_path)
    read = parquet.read_table(tmp_path / "train-00000.parquet")
    rows = read.to_pylist()
    assert list(rows[0]) == ["image", "labels", "unknown"]
    for row, cells in enumerate(rows):
        assert cells["image"] == {"bytes": photos.path(row).read_bytes(), "path": f"{row}.png"}
        names = {name for name, target in zip(photos.classes, photos.targets([row])[0], strict=True) if target}
        unsure = {name for name, known in zip(photos.classes, photos.known([row])[0], strict=True) if not known}
        assert (set(cells["labels"]), set(cells["unknown"])) == (names, unsure)
    features = json.loads(read.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"}
    assert features["labels"] == {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"}


def test_unknown_pairs_survive_a_program_that_drops_what_it_does_not_know(photos, tmp_path):
    pack(photos, tmp_path / "first")
    read = parquet.read_table(tmp_path / "first" / "train-00000.parquet")
    (tmp_path / "again").mkdir()
    parquet.write_table(read.replace_schema_metadata(None), tmp_path / "again" / "train-00000.parquet")
    table = load_table(tmp_path / "again").with_classes(photos.classes)
    every = np.arange(len(photos))
    assert table.images == photos.images
    assert (table.targets(every) == photos.targets(every)).all()
    assert (table.known(every) == photos.known(every)).all()


def test_shards_packed_again_are_the_same_table(photos, tmp_path, small_groups):
    pack(photos, tmp_path / "first", shard_bytes=3000)
    pack(load_table(tmp_path / "first"), tmp_path / "again")
    again = load_table(tmp_path / "again")
    assert_same_table(again, photos)
    assert read_image(again.image(7)) == photos.path(7).read_bytes()


def test_row_groups_end_with_64_images_or_8_mib(photos, tmp_path, monkeypatch):
    many = photos.select(np.arange(200) % len(photos))
    pack(replace(many, images=[f"{row}/../{name}" for row, name in enumerate(many.images)]), tmp_path / "many")
    metadata = parquet.read_metadata(tmp_path / "many" / "train-00000.parquet")
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [64, 64, 64, 8]
    monkeypatch.setattr(packing, "GROUP_BYTES", 1500)  # each picture has some 600 bytes
    pack(photos, tmp_path / "large")
    metadata = parquet.read_metadata(tmp_path / "large" / "train-00000.parquet")
    assert {metadata.row_group(index).num_rows for index in range(metadata.num_row_groups - 1)} == {3}


KILLED = """
import os, signal, sys
from pathlib import Path
from tagloom.data import load_table
from tagloom.data.packed import packing
packing.GROUP_IMAGES = 4
def die(done, total):
    if done >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
packing.pack(load_table(sys.argv[1]), Path(sys.argv[2]), shard_bytes=4000, progress=die)
"""


def test_a_killed_pack_goes_on_without_a_lost_or_doubled_row(photos, tmp_path, small_groups):
    pack(photos, tmp_path / "source")
    pack(load_table(tmp_path / "source"), tmp_path / "undisturbed", shard_bytes=4000)
    out = tmp_path / "killed"
    for image in (9, 17):  # in the second shard, and in a later one
        command = [sys.executable, "-c", KILLED, str(tmp_path / "source"), str(out), str(image)]
        assert subprocess.run(command, timeout=60).returncode == -9
        left = sorted(out.glob("*.parquet"))
        assert left
        assert list(out.glob("*.partial"))
        with pytest.raises(DataError, match=r"holds \d+ of 23 images. Run the same tagloom pack again"):
            load_table(out)
    done = pack(load_table(tmp_path / "source"), out, shard_bytes=4000)
    assert 0 < done.written < done.images == len(photos)
    whole = sorted((tmp_path / "undisturbed").iterdir())
    assert [path.name for path in sorted(out.iterdir())] == [path.name for path in whole]
    for path in whole:
        assert (out / path.name).read_bytes() == path.read_bytes()
    assert pack(load_table(tmp_path / "source"), out).written == 0


def test_shards_that_do_not_belong_together_are_refused(photos, tmp_path, small_groups):
    out = tmp_path / "shards"
    pack(photos, out, shard_bytes=3000)
    with pytest.raises(DataError, match="is of another table, or the table has changed"):
        pack(photos.select(range(5)), out)
    pack(photos.select(range(9)), out, split="val")
    with pytest.raises(DataError, match=r"several splits. Found: 'train', 'val'. Choose one with .*shards#NAME"):
        load_table(out)
    assert len(load_table(f"{out}#val")) == 9
    assert len(load_table(out, split="train")) == len(photos)
    assert len(load_table(out / "train-00001.parquet")) == 8  # one shard, because it is named
    (out / "train-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"rows 8 to 15 are missing before .*train-00002"):
        load_table(f"{out}#train")
    with pytest.raises(DataError, match="a shard before it is missing"):
        pack(photos, out)
    (out / "val-00000.parquet").rename(out / "train-00001.parquet")
    with pytest.raises(DataError, match="is not of the same table"):
        load_table(out)
    with pytest.raises(DataError, match="give a word such as train"):
        pack(photos, out, split="../train")


def test_a_split_is_packed_next_to_one_whose_name_goes_on(photos, tmp_path):
    few = photos.select(np.arange(5))
    pack(photos, tmp_path / "shards", split="train-extra")
    pack(few, tmp_path / "shards", split="train")
    assert pack(few, tmp_path / "shards", split="train").written == 0
    assert len(load_table(f"{tmp_path / 'shards'}#train")) == 5
    assert len(load_table(f"{tmp_path / 'shards'}#train-extra")) == len(photos)


def test_one_shard_can_be_read_alone_from_a_folder_beside(photos, tmp_path, small_groups, monkeypatch):
    shards = pack(photos, tmp_path / "shards", shard_bytes=3000).shards
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    alone = load_table(f"../shards/{shards[1].name}")
    assert alone.images == load_table(shards[1]).images
