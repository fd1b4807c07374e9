"""Pictures in shards are read by row: each row group once, by threads, forks and copies, in bounded memory."""

import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tagloom.data import load_table
from tagloom.data.images import content_hash, read_image
from tagloom.data.packed import images, shards
from tagloom.data.packed.images import PackedImages
from tagloom.data.packed.packing import pack
from tagloom.data.packed.shards import Shard, Shards
from tagloom.errors import DataError, ImageError


def packed_photos(photos, folder: Path):
    pack(photos, folder, shard_bytes=3000)
    return load_table(folder)


@pytest.fixture
def read_groups(monkeypatch) -> list[tuple[str, int]]:
    """Note which row groups are read."""
    noted: list[tuple[str, int]] = []
    real = shards._Kept.read

    def noting(kept, place, column, group):
        noted.append((place, group))
        return real(kept, place, column, group)

    monkeypatch.setattr(shards._Kept, "read", noting)
    return noted


def test_threads_that_come_first_in_a_copy_do_not_share_files_without_a_lock(photos, tmp_path, monkeypatch):
    table = packed_photos(photos, tmp_path / "shards")
    copy = pickle.loads(pickle.dumps(table.packed.store))  # noqa: S301  as a Ray task gets it
    second_comes, first_reads, second_is_in = threading.Event(), threading.Event(), threading.Event()
    used: dict[int, set[int]] = {}

    class SlowToStart(shards._Kept):
        def __init__(self) -> None:
            super().__init__()
            if not second_comes.is_set() and threading.current_thread().name == "first":
                second_comes.wait(5)
            else:
                second_comes.set()
                first_reads.wait(5)

        def read(self, *what):
            used.setdefault(id(self), set()).add(threading.get_ident())
            if threading.current_thread().name == "first":
                first_reads.set()
                second_is_in.wait(5)
            else:
                second_is_in.set()
            return super().read(*what)

        def add(self, *what):
            used.setdefault(id(self), set()).add(threading.get_ident())
            super().add(*what)

    monkeypatch.setattr(shards, "_Kept", SlowToStart)
    found: dict[str, bytes] = {}

    def read(row: int) -> None:
        found[threading.current_thread().name] = copy.read(row, "an image")

    threads = [threading.Thread(target=read, args=(row,), name=name) for row, name in enumerate(("first", "second"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: photos.path(row).read_bytes() for row, name in enumerate(("first", "second"))}
    assert [len(by) for by in used.values()] == [1, 1]


def test_threads_read_each_row_group_once(photos, tmp_path, small_groups, read_groups):
    table = packed_photos(photos, tmp_path / "shards")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda row: content_hash(table.image(row)), range(len(table))))
    assert found == [content_hash(photos.path(row)) for row in range(len(photos))]
    assert sorted(read_groups) == sorted(set(read_groups))
    assert len(read_groups) == 6


def test_no_more_is_kept_than_allowed(photos, tmp_path, small_groups, monkeypatch, read_groups):
    table = packed_photos(photos, tmp_path / "shards")
    monkeypatch.setattr(shards, "HELD_BYTES", 6000)  # two row groups
    store = table.packed.store
    for row in (0, 4, 1, 5, 8, 0):
        read_image(table.image(row))
        assert sum(group.size for group in store._kept.groups.values()) <= 6000
    assert [group for _, group in read_groups] == [0, 1, 0, 0]  # two in each shard; the first was dropped for the third


def test_a_forked_process_and_a_copy_open_the_files_for_themselves(photos, tmp_path, small_groups):
    table = packed_photos(photos, tmp_path / "shards")
    rows = range(len(table))
    expected = [photos.path(row).read_bytes() for row in rows]
    table.packed.store._kept.lock.acquire()  # another thread was reading when the process was forked
    child = os.fork()
    if child == 0:
        os._exit(0 if [read_image(table.image(row)) for row in rows] == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    table.packed.store._kept.lock.release()
    copy = pickle.loads(pickle.dumps(table))  # noqa: S301, our own
    assert [read_image(copy.image(row)) for row in reversed(rows)] == expected[::-1]


def test_labels_are_read_without_pictures(photos, tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    for row in range(len(photos)):
        (folder / f"{row}.png").write_bytes(os.urandom(100_000))
    pack(photos, tmp_path / "shards")
    read = []
    real = shards.open_parquet.__wrapped__.__globals__["open_shard"]

    class Counting:
        def __init__(self, place):
            self._file = real(place)

        def __getattr__(self, name):
            return getattr(self._file, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

        def read(self, size=-1):
            data = self._file.read(size)
            read.append(len(data))
            return data

    monkeypatch.setitem(shards.open_parquet.__wrapped__.__globals__, "open_shard", Counting)
    assert len(load_table(tmp_path / "shards")) == len(photos)
    size = (tmp_path / "shards" / "train-00000.parquet").stat().st_size
    assert size > 2_000_000
    assert 0 < sum(read) < 200_000  # the footer, twice, names and labels


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 50)), min_size=1, max_size=30), st.data())
def test_an_epoch_has_every_row_once_and_each_row_group_in_one_window(groups, data):
    store = Shards([Shard("a", tuple(rows for rows, _ in groups), tuple(size for _, size in groups))], "image")
    total = sum(rows for rows, _ in groups)
    chosen = data.draw(st.lists(st.integers(0, total - 1), min_size=1, unique=True))
    packed = PackedImages(store, np.array(chosen))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "WINDOW_BYTES", 100)
        order = packed.shuffled(np.random.default_rng(7))
        again = packed.shuffled(np.random.default_rng(7))
    assert sorted(order) == list(range(len(chosen)))
    assert (order == again).all()
    group_of = np.searchsorted(store.group_starts, packed.numbers[order], side="right") - 1
    last = {group: place for place, group in enumerate(group_of.tolist())}
    first = {group: place for place, group in reversed(list(enumerate(group_of.tolist())))}
    for place in range(len(order)):  # what must be in memory at a time
        held = sum(groups[group][1] for group in first if first[group] <= place <= last[group])
        assert held <= 100 + 50


def test_another_epoch_has_another_order_across_and_within_groups(monkeypatch):
    monkeypatch.setattr(images, "WINDOW_BYTES", 40)
    store = Shards([Shard("a", (10,) * 20, (10,) * 20)], "image")
    packed = PackedImages(store, np.arange(200))
    orders = [packed.shuffled(np.random.default_rng(seed)) for seed in range(2)]
    assert (orders[0] != orders[1]).any()
    windows = orders[0].reshape(5, 40) // 10
    assert all(len(np.unique(window)) == 4 for window in windows)
    assert all((np.diff(window) != 0).sum() > 10 for window in windows)  # mixed, not group after group


def hub_file(path: Path, features: dict, **columns) -> Path:
    table = pa.table({"image": [{"bytes": bytes([row]) * 9, "path": None} for row in range(3)], **columns})
    about = {"info": {"features": {"image": {"_type": "Image"}, **features}}}
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), path)
    return path


def test_data_sets_of_the_hub_are_tables(tmp_path):
    names = {"names": ["cat", "dog", "sofa"], "_type": "ClassLabel"}
    single = load_table(hub_file(tmp_path / "a.parquet", {"label": names}, label=[1, 0, -1]))
    assert (single.classes, single.targets([0, 1, 2]).tolist()) == (("cat", "dog"), [[0, 1], [1, 0], [0, 0]])
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    lists = {"labels": {"feature": names, "_type": "Sequence"}}
    hub_file(folder / "train-00000-of-00002.parquet", lists, labels=[[0, 2], [], [1]])
    hub_file(folder / "train-00001-of-00002.parquet", lists, labels=[[2], [0], [0, 1]])
    hub_file(folder / "test-00000-of-00001.parquet", lists, labels=[[0], [0], [0]])
    table = load_table(f"{tmp_path / 'hub'}#train")
    assert table.classes == ("cat", "dog", "sofa")
    assert table.targets(slice(None)).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 1, 0]]
    assert len(set(table.images)) == 6
    assert [read_image(table.image(row)) for row in (0, 2, 3)] == [b"\0" * 9, b"\2" * 9, b"\0" * 9]
    assert table.select([5]).image(0).read() == b"\2" * 9


def test_images_of_one_name_stay_apart_and_a_path_is_never_opened(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("not for you")
    cells = [{"bytes": b"a", "path": "x.jpg"}, {"bytes": b"b", "path": "x.jpg"}, {"bytes": None, "path": str(secret)}]
    parquet.write_table(pa.table({"image": cells, "labels": [["cat"], ["dog"], []]}), tmp_path / "t.parquet")
    table = load_table(tmp_path / "t.parquet")
    assert table.images == ["x.jpg", "t/1/x.jpg", str(secret)]
    assert [read_image(table.image(row)) for row in (0, 1)] == [b"a", b"b"]
    with pytest.raises(ImageError, match="its row holds no bytes of a picture"):
        read_image(table.image(2))
    with pytest.raises(DataError, match="its images are packed, and this needs a file per image"):
        table.path(0)
