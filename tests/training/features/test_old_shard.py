"""Caches of older versions hold the right features, and are read in the right order."""

from pathlib import Path

import numpy as np
import pytest

from tagloom.training.features.cache import FeatureCache


def write_old(folder: Path, name: str, keys: str, arrays: list[np.ndarray]) -> None:
    """Write a shard as older versions did."""
    for number, array in enumerate(arrays):
        np.save(folder / f"{name}.{number}.npy", array, allow_pickle=False)
    (folder / f"{name}.keys").write_text("\n".join(keys), encoding="ascii")


def thirteen(keys: str) -> list[np.ndarray]:
    return [np.full((len(keys), 3), number + 1, np.float32) for number in range(13)]


def test_tensors_are_read_in_the_order_of_their_numbers(tmp_path):
    write_old(tmp_path, "ab", "xy", thirteen("xy"))
    cache = FeatureCache(tmp_path, note=pytest.fail)
    assert cache.missing("xyz") == ["z"]
    cache.add(["z"], thirteen("z"))
    for opened in (cache, FeatureCache(tmp_path, note=pytest.fail)):
        found = opened.view("zyx").gather(np.arange(3))
        assert [array[:, 0].tolist() for array in found] == [[number + 1] * 3 for number in range(13)]


@pytest.mark.parametrize("missing", [0, 2, 12])
def test_a_shard_that_lacks_an_array_is_dropped(tmp_path, missing):
    write_old(tmp_path, "ab", "xy", thirteen("xy"))
    (tmp_path / f"ab.{missing}.npy").unlink()
    write_old(tmp_path, "cd", "z", thirteen("z"))
    write_old(tmp_path, "ef", "w", thirteen("w"))
    notes: list[str] = []
    cache = FeatureCache(tmp_path, note=notes.append)
    assert cache.missing("xyzw") == ["x", "y"]
    assert len(notes) == 1
    assert not (tmp_path / "ab.keys").exists()


def zero(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:128] + bytes(len(content) - 128))


DAMAGE = {
    "body": ("*.npy", zero),
    "empty": ("*.npy", lambda path: path.write_bytes(b"")),
    "header": ("*.npy", lambda path: path.write_bytes(path.read_bytes()[:60])),
    "cut": ("*.npy", lambda path: path.write_bytes(path.read_bytes()[:-1])),
    "pickled": ("*.npy", lambda path: np.save(path, np.array([{"an": "object"}]), allow_pickle=True)),
    "columns": ("*.npy", lambda path: path.write_bytes(path.read_bytes().replace(b"False", b"True ", 1))),
    "not ascii": ("*.keys", lambda path: path.write_bytes(b"\xff\xfe")),
    "no keys": ("*.keys", lambda path: path.write_text("")),
    "more keys": ("*.keys", lambda path: path.write_text("x\ny\nz")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_dropped_with_a_note_and_nothing_raw_is_raised(tmp_path, damage):
    write_old(tmp_path, "ab", "xy", thirteen("xy"))
    pattern, change = DAMAGE[damage]
    for path in tmp_path.glob(pattern):
        change(path)
    notes: list[str] = []
    cache = FeatureCache(tmp_path, note=notes.append)
    assert cache.missing("xyz") == ["x", "y", "z"]
    assert len(notes) == 1
    assert not (tmp_path / "ab.keys").exists()
