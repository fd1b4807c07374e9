"""The feature cache keeps what was computed, through kills, full disks and other writers."""

import errno
import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import run

import numpy as np
import pytest

from tagloom.cache_folder import default_cache_folder
from tagloom.errors import TagloomError
from tagloom.training.features import cache as cache_module
from tagloom.training.features import shard as shard_module
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.shard import read_shard


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


def test_a_shard_whose_writer_was_killed_is_ignored(tmp_path):
    filled(tmp_path)
    (tmp_path / "0123.safetensors.4567.partial").write_bytes(b"half a shard")
    np.save(tmp_path / "0123.0.npy", np.zeros((2, 6), np.float32))  # as older versions wrote them
    (tmp_path / "0123.keys.partial").write_text("x\ny")
    cache = FeatureCache(tmp_path, note=pytest.fail)
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


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system refuse to write more than some bytes to any file, in the middle of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 100, 5000])
def test_a_file_that_cannot_be_written_whole_says_so_and_keeps_what_was_there(tmp_path, room):
    cache, held = filled(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with (
        files_of_at_most(room),
        pytest.raises(TagloomError, match=r"File too large.*written before is untouched.*TAGLOOM_CACHE"),
    ):
        cache.add(["x"] * 900, features(9, 900))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert cache.missing(["x"]) == ["x"]
    assert_view(FeatureCache(tmp_path, note=pytest.fail), held, "abc", [0, 1, 2])


def test_a_full_disk_says_so_and_keeps_what_was_there(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if not mount or run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("no small disk can be made here")
    try:
        cache, held = filled(disk / "cache")

        def write(count: int) -> None:
            for number in range(count):
                cache.add([f"key{number}"] * 1000, features(number, 1000))
                held[f"key{number}"] = [array[0] for array in features(number, 1000)]

        with pytest.raises(TagloomError, match=r"No space left.*written before is untouched"):
            write(100)
        assert 5 < len(held) < 30, "it took some shards to fill the disk"
        assert not list((disk / "cache").glob("*.partial"))
        again = FeatureCache(disk / "cache", note=pytest.fail)
        assert again.missing(held) == []
        for name, arrays in held.items():
            for found, wanted in zip(again.view([name]).gather(np.array([0])), arrays, strict=True):
                np.testing.assert_array_equal(found[0], wanted)
    finally:
        run(["umount", "-l", disk], check=True)


def test_a_folder_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TagloomError, match="features could not be written"):
        FeatureCache(tmp_path / "file" / "cache").add(["x"], features(0, 1))


def test_tensors_keep_their_order_when_there_are_more_than_ten(tmp_path):
    arrays = [np.full((2, 3), number, np.float32) for number in range(13)]
    FeatureCache(tmp_path).add(["a", "b"], arrays)
    found = FeatureCache(tmp_path).view(["b"]).gather(np.array([0]))
    assert [int(array[0, 0]) for array in found] == list(range(13))


def test_batches_are_joined_in_order(tmp_path):
    batches = [features(number, count) for number, count in enumerate([3, 1, 4])]
    cache = FeatureCache(tmp_path)
    cache.add(list("abcdefgh"), *batches)
    found = FeatureCache(tmp_path).view(list("abcdefgh")).gather(np.arange(8))
    for number, array in enumerate(found):
        np.testing.assert_array_equal(array, np.concatenate([batch[number] for batch in batches]))


def zeroed(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes(40))


DAMAGE = {
    "zeroed": zeroed,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:90]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "foreign": lambda path: path.write_bytes(b"\xff\xfe" * 400),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_is_dropped_with_a_note_and_the_others_are_used(tmp_path, damage):
    _, held = filled(tmp_path)
    first, *_ = sorted(tmp_path.glob("*.safetensors"))
    lost = read_shard(first).keys
    DAMAGE[damage](first)
    notes: list[str] = []
    cache = FeatureCache(tmp_path, note=notes.append)
    assert cache.missing("abcdefghi") == list(lost)
    assert len(notes) == 1
    assert notes[0].startswith(f"{tmp_path}: a damaged shard was dropped ({first.name}: ")
    assert not first.exists()
    cache.add(lost, [np.stack([held[key][number] for key in lost]) for number in range(2)])
    assert_view(FeatureCache(tmp_path, note=pytest.fail), held, "abcdefghi", list(range(9)))


def test_a_shard_that_nobody_asks_for_is_not_read(tmp_path, monkeypatch):
    filled(tmp_path)
    opened: list[Path] = []
    monkeypatch.setattr(shard_module, "is_intact", lambda path: not opened.append(path))
    again = FeatureCache(tmp_path)
    assert again.missing("ab") == []
    assert again.missing("ba") == []
    assert len(opened) == 1, "and no shard is checked twice"


def test_images_of_a_damaged_shard_are_found_in_another(tmp_path):
    one, other = FeatureCache(tmp_path), FeatureCache(tmp_path)
    arrays = features(1, 2)
    one.add(["a", "b"], arrays)
    other.add(["b", "a"], [array[::-1] for array in arrays])
    zeroed(min(tmp_path.glob("*.safetensors")))
    cache = FeatureCache(tmp_path)
    assert cache.missing(["a", "b"]) == []
    np.testing.assert_array_equal(cache.view(["a", "b"]).gather(np.arange(2))[0], arrays[0])


def test_a_reader_goes_on_after_its_shards_were_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "KEEP_IN_MEMORY_BYTES", 0)
    filled(tmp_path)
    cache = FeatureCache(tmp_path)
    before = FeatureCache(tmp_path)
    assert cache.missing("abc") == []
    shutil.rmtree(tmp_path)
    assert len(cache.view("abc").gather(np.arange(3))[0]) == 3
    assert before.missing("abc") == list("abc"), "whoever had not looked yet extracts them again"


def test_a_shard_of_other_shapes_is_dropped(tmp_path):
    _, held = filled(tmp_path)
    FeatureCache(tmp_path).add(["x"], [np.ones((1, 7), np.float32)])
    notes: list[str] = []
    cache = FeatureCache(tmp_path, note=notes.append)
    assert cache.missing("ax") == ["x"]
    assert "other shapes" in notes[0]
    assert_view(cache, held, "abc", [0, 1, 2])


def test_a_shard_that_may_not_be_read_is_not_taken_for_damaged(tmp_path, monkeypatch):
    filled(tmp_path)
    names = sorted(tmp_path.iterdir())

    def refuse(path, *arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TagloomError, match=r"cannot be read.*Permission denied.*--cache"):
        FeatureCache(tmp_path)
    assert sorted(tmp_path.iterdir()) == names


def test_more_shards_than_open_files_are_allowed_can_be_used(tmp_path):
    cache = FeatureCache(tmp_path)
    for number in range(60):
        cache.add([f"key{number}"], features(number, 1))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/dev/fd").iterdir())) + 20, before[1]))
    try:
        assert FeatureCache(tmp_path).missing(f"key{number}" for number in range(60)) == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_unfinished_files_of_killed_writers_are_removed_after_a_day(tmp_path):
    filled(tmp_path)
    old, new = (tmp_path / f"0123.safetensors.{number}.partial" for number in range(2))
    lone = tmp_path / "0123.0.npy"
    for path in (old, new, lone):
        path.write_bytes(b"half")
    for path in (old, lone):
        os.utime(path, (0, time.time() - 2 * 24 * 3600))
    FeatureCache(tmp_path)
    assert (old.exists(), new.exists(), lone.exists()) == (False, True, False)


def test_use_is_noted(tmp_path):
    filled(tmp_path)
    os.utime(tmp_path, (0, 0))
    FeatureCache(tmp_path)
    assert time.time() - tmp_path.stat().st_mtime < 60


def test_the_cache_lies_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path))
    assert default_cache_folder() == tmp_path
    monkeypatch.delenv("TAGLOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "tagloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_folder() == Path.home() / ".cache" / "tagloom"
