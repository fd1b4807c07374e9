"""The feature cache keeps what was computed, through kills, full disks and other writers."""

import errno
from pathlib import Path

import numpy as np
import pytest

from tagloom.cache_folder import default_cache_folder
from tagloom.errors import TagloomError
from tagloom.training.features import cache as cache_module
from tagloom.training.features.cache import FeatureCache


def features(seed: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.random((count, 6), np.float32), rng.random((count, 2, 3, 3), np.float32)]


def filled(folder: Path) -> tuple[FeatureCache, dict[str, list[np.ndarray]]]:
    """A cache of three shards, and what it should hold by key."""
    cache, held = FeatureCache(folder), {}
    for number, names in enumerate(["abc", "de", "fghi"]):
        arrays = features(number, len(names))
        cache.add(list(names), arrays)
        held |= {name: [array[row] for array in arrays] for row, name in enumerate(names)}
    return cache, held


def assert_view(cache: FeatureCache, held: dict[str, list[np.ndarray]], keys: str, rows: list[int]) -> None:
    arrays = cache.view(list(keys)).gather(np.array(rows, np.int64))
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.stack([held[keys[row]][number] for row in rows]))


def test_features_come_back_in_the_order_asked_for(tmp_path):
    cache, held = filled(tmp_path)
    assert_view(cache, held, "igbaed", [5, 0, 0, 3, 2])


def test_another_process_finds_them(tmp_path):
    _, held = filled(tmp_path)
    again = FeatureCache(tmp_path)
    assert again.missing(list("axbyx")) == ["x", "y"]
    assert_view(again, held, "iha", [2, 1, 0])


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_memory_and_memory_mapping_give_the_same(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(cache_module, "KEEP_IN_MEMORY_BYTES", limit)
    cache, held = filled(tmp_path)
    view = cache.view(list("fbagc"))
    assert (view._whole is None) == (limit == 0)
    assert_view(cache, held, "fbagc", [4, 1, 3, 1])


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_gathered_row_may_be_written_without_harm_to_the_cache(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(cache_module, "KEEP_IN_MEMORY_BYTES", limit)
    cache, held = filled(tmp_path)
    view = cache.view(list("abc"))
    for array in view.gather(np.array([0, 1])):
        array[:] = -1
    np.testing.assert_array_equal(view.gather(np.array([0]))[0][0], held["a"][0])


def test_a_selection_is_the_same_as_asking_for_fewer_keys(tmp_path):
    cache, held = filled(tmp_path)
    chosen = cache.view(list("abcdefghi")).select(np.array([8, 0, 4]))
    assert len(chosen) == 3
    np.testing.assert_array_equal(chosen.gather(np.arange(3))[1], np.stack([held[key][1] for key in "iae"]))


def test_no_keys_give_an_empty_view(tmp_path):
    assert len(FeatureCache(tmp_path / "nothing").view([])) == 0


def test_keys_that_are_asked_for_twice_share_one_row(tmp_path):
    cache, held = filled(tmp_path)
    assert cache.missing(["new", "a", "new"]) == ["new"]
    assert_view(cache, held, "aab", [0, 1, 2])


def test_a_shard_whose_writer_was_killed_before_the_keys_is_ignored(tmp_path):
    filled(tmp_path)
    np.save(tmp_path / "0123.0.npy", np.zeros((2, 6), np.float32))
    (tmp_path / "0123.keys.partial").write_text("x\ny")
    cache = FeatureCache(tmp_path)
    assert cache.missing(["x", "y", "a"]) == ["x", "y"]


def test_two_writers_do_not_disturb_each_other(tmp_path):
    first, second = FeatureCache(tmp_path), FeatureCache(tmp_path)
    one, other = features(1, 2), features(2, 2)
    first.add(["a", "b"], one)
    second.add(["b", "c"], other)
    assert first.missing(["a", "b", "c"]) == ["c"]
    assert second.missing(["a", "b", "c"]) == ["a"]
    joined = FeatureCache(tmp_path)
    assert joined.missing(["a", "b", "c"]) == []
    found = joined.view(["a", "c"]).gather(np.array([0, 1]))[0]
    np.testing.assert_array_equal(found, np.stack([one[0][0], other[0][1]]))


@pytest.mark.parametrize("failing", [1, 2])
def test_a_full_disk_says_so_and_keeps_what_was_there(tmp_path, monkeypatch, failing):
    cache, held = filled(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    calls, save = [], np.save

    def full(path, array, **options):
        calls.append(path)
        if len(calls) == failing:
            Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(path, array, **options)

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(TagloomError, match=r"No space left.*written before is untouched.*TAGLOOM_CACHE"):
        cache.add(["x"], features(9, 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert cache.missing(["x"]) == ["x"]
    assert_view(FeatureCache(tmp_path), held, "abc", [0, 1, 2])


def test_a_folder_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TagloomError, match="features could not be written"):
        FeatureCache(tmp_path / "file" / "cache").add(["x"], features(0, 1))


def test_large_maps_are_kept_in_half_precision_and_small_summaries_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "FLOAT32_VALUES", 10)
    cache, held = filled(tmp_path)
    pooled, maps = cache.view(["a"]).gather(np.array([0]))
    assert pooled.dtype == np.float32
    assert maps.dtype == np.float16
    np.testing.assert_allclose(maps[0], held["a"][1], rtol=1e-3)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_shard_says_what_to_delete(tmp_path, damage):
    filled(tmp_path)
    for path in tmp_path.glob("*.npy"):
        path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:90])
    with pytest.raises(TagloomError, match=r"is damaged.*Delete this folder"):
        FeatureCache(tmp_path).view(["a"])


def test_shards_are_never_unpickled(tmp_path):
    cache, _ = filled(tmp_path)
    for path in tmp_path.glob("*.npy"):
        np.save(path, np.array([{"an": "object"}]), allow_pickle=True)
    with pytest.raises(TagloomError, match="is damaged"):
        cache.view(["a"])


def test_the_cache_lies_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path))
    assert default_cache_folder() == tmp_path
    monkeypatch.delenv("TAGLOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "tagloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_folder() == Path.home() / ".cache" / "tagloom"
