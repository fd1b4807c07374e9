"""What the caches hold is counted and cleared, and nothing that is not Tagloom's is touched."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from tagloom.cache_contents import clear_cache, list_cache
from tagloom.cache_folder import file_checksum, name_with_checksum, write_meta
from tagloom.words.cache import VectorCache

KEY = "0123456789abcdef" * 2
OTHER = "f" * 32
DAY = 24 * 3600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cache of every kind, and of an older version."""
    for name, view in ((KEY, ""), (OTHER, "mirrored")):
        folder = tmp_path / "features" / name
        folder.mkdir(parents=True)
        write_meta(folder / "meta.json", {"backbone": "vit", "size": 224, "summary": ["map"], "view": view})
        (folder / f"{KEY}-0123abcd.safetensors").write_bytes(bytes(1000))
    old = tmp_path / "features" / ("a" * 32)
    old.mkdir()
    for name in (f"{KEY}.keys", f"{KEY}.0.npy", f"{KEY}.12.npy", f"{KEY}.keys.partial"):
        (old / name).write_bytes(bytes(10))
    extractors = tmp_path / "extractors"
    extractors.mkdir()
    (extractors / f"{KEY}-0123abcd.onnx").write_bytes(bytes(300))
    write_meta(extractors / f"{KEY}.json", {"backbone": "vit", "size": 224})
    VectorCache(tmp_path / "words", "glove 1.0").add(["dog"], np.ones((1, 4), np.float32))
    return tmp_path


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def make_old(root: Path, days: float) -> None:
    for path in root.rglob("*"):
        os.utime(path, (0, time.time() - days * DAY))


def test_entries_say_what_they_belong_to(root):
    found = [(entry.kind, entry.about) for entry in list_cache(root)]
    assert found == [
        ("features", "vit at 224 px; map; mirrored"),
        ("features", "vit at 224 px; map"),
        ("features", "unknown"),
        ("extractors", "vit at 224 px"),
        ("words", "glove 1.0"),
    ]
    assert sum(entry.bytes for entry in list_cache(root)) == sum((root / name).stat().st_size for name in files(root))


def test_an_entry_was_used_when_its_folder_or_its_network_was(root):
    make_old(root, 5)
    for path in (root / "features" / KEY, root / "extractors" / f"{KEY}-0123abcd.onnx"):
        os.utime(path)
    fresh = {(entry.kind, entry.path.name) for entry in list_cache(root) if time.time() - entry.used < DAY}
    assert fresh == {("features", KEY), ("extractors", KEY)}


def test_no_cache_has_no_entries(tmp_path):
    assert list_cache(tmp_path / "nothing") == []
    assert clear_cache([]).bytes == 0


def test_everything_of_ours_is_removed(root):
    make_old(root, 2)  # or the unfinished file would stay
    entries = list_cache(root)
    done = clear_cache(entries)
    assert (done.entries, done.bytes, done.kept) == (5, sum(entry.bytes for entry in entries), ())
    assert files(root) == set()
    assert not list((root / "features").iterdir())


def test_what_is_not_ours_stays(root, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / f"{KEY}-0123abcd.safetensors").write_text("mine")
    foreign = ["features/notes.txt", f"features/{KEY}/model.safetensors", f"features/{KEY}/{KEY}.txt",
               "words/glove.txt", "extractors/mine.onnx", "checkpoint.pt", f"{KEY}.onnx",
               f"other/{KEY}/meta.json"]  # fmt: skip
    for name in foreign:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
    (root / "features" / ("b" * 32)).symlink_to(outside)
    (root / "features" / KEY / f"{OTHER}-0123abcd.safetensors").symlink_to(outside / f"{KEY}-0123abcd.safetensors")
    (root / "features" / KEY / f"{OTHER}.keys").mkdir()
    make_old(root, 2)
    assert clear_cache(list_cache(root)).kept == ()
    assert files(root) == {*foreign, f"features/{KEY}/{OTHER}-0123abcd.safetensors"}
    assert (root / "features" / ("b" * 32)).is_symlink()
    assert (root / "features" / KEY / f"{OTHER}.keys").is_dir()
    assert (outside / f"{KEY}-0123abcd.safetensors").read_text() == "mine"


def test_what_is_being_written_stays(root):
    writing = root / "features" / KEY / f"{OTHER}-0123abcd.safetensors.{KEY}.partial"
    writing.write_bytes(b"half")
    export = root / "extractors" / f"{OTHER}.onnx.partial"
    export.write_bytes(b"half")
    done = clear_cache([entry for entry in list_cache(root) if entry.path.name != "a" * 32])
    assert sorted(done.kept) == sorted([writing, export])
    assert writing.exists()
    assert export.exists()


def test_what_another_process_removed_meanwhile_is_no_error(root):
    make_old(root, 2)
    entries = list_cache(root)
    clear_cache(entries)
    assert clear_cache(entries).kept == ()


def test_names_carry_the_checksum(tmp_path):
    (tmp_path / "file").write_bytes(b"123456789")
    assert file_checksum(tmp_path / "file") == 0xCBF43926  # the published check value of CRC-32
    assert name_with_checksum(KEY, 0xCBF43926, ".onnx") == f"{KEY}-cbf43926.onnx"
