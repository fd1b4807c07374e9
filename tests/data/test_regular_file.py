"""A pipe or a device that a table names is refused at once: no reader waits for it, and none reads without end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tagloom.data import images, load_table
from tagloom.data.audit import audit
from tagloom.data.images import content_hash, open_image
from tagloom.data.parsing.classes import read_classes
from tagloom.data.reading import read_pictures
from tagloom.data.regular_file import NotRegularError, is_regular, open_regular, read_regular
from tagloom.errors import DataError, ImageError
from tagloom.labels.split import read_split
from tagloom.recipe.pictures import Preprocess

SECONDS = 20


def error_of(work: Callable[[], object]) -> BaseException | None:
    """Give what a piece of work raises; fail if it does not end. A thread, so that a hang cannot stop the tests."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            raised.append(None)
        except BaseException as error:  # noqa: BLE001  whatever it is, the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert raised, "still waiting"
    return raised[0]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.jpg"
    os.mkfifo(path)
    return path


@pytest.fixture
def listening(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        yield tmp_path / "s"


def test_only_regular_files_are_opened(pipe, listening, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    for path in (pipe, listening, tmp_path, Path("/dev/zero"), Path("/dev/tty"), link):
        assert isinstance(error_of(lambda path=path: open_regular(path)), OSError)
        assert not is_regular(path)
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    link.unlink()
    link.symlink_to(file)
    assert read_regular(link, 10) == b"12345"
    assert read_regular(file, 3) == b"1234"  # one more than allowed, so that the caller sees it
    assert not is_regular(tmp_path / ("x" * 5000))
    assert not is_regular(Path("zero\0byte"))


def test_a_small_file_takes_no_more_memory_than_it_is_large(tmp_path):
    file = tmp_path / "small.jpg"
    file.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert len(read_regular(file, 2**28)) == 1000
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_files_that_say_no_size_are_read_whole():
    whole = Path("/proc/self/limits").read_bytes()
    assert len(whole) > 100
    assert read_regular("/proc/self/limits", 2**20) == whole
    assert read_regular("/proc/self/limits", 10) == whole[:11]


def test_a_pipe_that_takes_the_place_of_a_file_in_between_is_refused(pipe, tmp_path, monkeypatch):
    regular = tmp_path / "file"
    regular.touch()
    as_before = regular.stat()
    monkeypatch.setattr(os, "stat", lambda path, **options: as_before)
    closed, close = [], os.close
    monkeypatch.setattr(os, "close", lambda descriptor: (closed.append(descriptor), close(descriptor)))
    assert isinstance(error_of(lambda: open_regular(pipe)), NotRegularError)
    assert len(closed) == 1


@pytest.mark.parametrize("read", [content_hash, open_image])
def test_images_that_are_no_regular_files_are_refused(pipe, read):
    for path in (pipe, "/dev/zero", pipe.parent):
        error = error_of(lambda path=path: read(path))
        assert isinstance(error, ImageError)
        assert error.reason == "format"
        assert "Give an image file." in str(error)


def test_hashing_ends_at_the_size_cap(tmp_path, monkeypatch):
    endless = tmp_path / "endless.jpg"
    with endless.open("wb") as file:
        file.truncate(2**40)  # a terabyte of nothing, and no block of disk
    error = error_of(lambda: content_hash(endless))
    assert isinstance(error, ImageError)
    assert error.reason == "oversized"
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 3)
    (tmp_path / "three").write_bytes(b"abc")
    assert len(content_hash(tmp_path / "three")) == 32
    if Path("/proc/cpuinfo").exists():  # gives its size as 0
        error = error_of(lambda: content_hash("/proc/cpuinfo"))
        assert isinstance(error, ImageError)
        assert error.reason == "oversized"


def test_pictures_and_audits_name_a_pipe_and_continue(pipe, scenes):
    good = next((scenes / "images").glob("train_*.jpg"))
    found: list[object] = []
    error = error_of(lambda: found.extend(read_pictures([good, pipe, good], Preprocess(size=32))))
    assert error is None
    assert found[0].indices == [0, 2]
    assert found[0].errors[0][1].reason == "format"
    (pipe.parent / "t.csv").write_text(f"image,labels\n{good},cat\npipe.jpg,cat\n/dev/zero,dog\n")
    table = load_table(pipe.parent / "t.csv")
    audits: list[object] = []
    assert error_of(lambda: audits.append(audit(table, table.select([1])))) is None
    assert [problem.kind for problem in audits[0].problems] == ["format", "format"]


def _voc(folder: Path) -> tuple[Path, Path]:
    for name in ("JPEGImages", "Annotations"):
        (folder / "VOC2007" / name).mkdir(parents=True)
    return folder / "VOC2007", folder / "VOC2007" / "Annotations" / "1.xml"


def _voc_lists(folder: Path) -> tuple[Path, Path]:
    lists = folder / "VOC2007" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (folder / "VOC2007" / "JPEGImages").mkdir()
    (lists / "train.txt").write_text("1\n2\n")
    (lists / "dog_train.txt").write_text("1 1\n2 -1\n")
    return lists / "train.txt", lists / "cat_train.txt"


def _nus_lists(folder: Path) -> tuple[Path, Path]:
    (folder / "AllLabels").mkdir()
    (folder / "Imagelist.txt").write_text("1.jpg\n")
    (folder / "1.jpg").touch()
    (folder / "AllLabels" / "Labels_sky.txt").write_text("1\n")
    return folder, folder / "AllLabels" / "Labels_sea.txt"


def _open_images(folder: Path) -> tuple[Path, Path]:
    (folder / "test-human.csv").write_text("ImageID,Source,LabelName,Confidence\n1a,verification,/m/1,1\n")
    (folder / "1a.jpg").touch()
    return folder / "test-human.csv", folder / "oidv6-class-descriptions.csv"


def _itself(name: str) -> Callable[[Path], tuple[Path, Path]]:
    return lambda folder: (folder / name, folder / name)


def _metadata(folder: Path) -> tuple[Path, Path]:
    return folder, folder / "metadata.csv"


READERS = {
    "VOC": _voc,
    "VOC lists": _voc_lists,
    "NUS-WIDE lists": _nus_lists,
    "Open Images": _open_images,
    "image folder": _metadata,
} | {name: _itself(name) for name in ("t.csv", "t.jsonl", "t.json", "t.parquet", "t.tsv", "t.txt")}


@pytest.mark.parametrize("kind", READERS)
def test_no_reader_of_tables_waits_for_a_pipe_or_reads_a_device(tmp_path, kind):
    table, strange = READERS[kind](tmp_path)
    os.mkfifo(strange)
    error = error_of(lambda: load_table(table))
    assert isinstance(error, DataError), error
    strange.unlink()
    strange.symlink_to("/dev/zero")
    assert isinstance(error_of(lambda: load_table(table)), DataError)


def test_a_pipe_called_classes_txt_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "classes.txt")
    (tmp_path / "t.csv").write_text("image,labels\na.jpg,cat\n")
    assert error_of(lambda: load_table(tmp_path / "t.csv")) is None
    assert isinstance(error_of(lambda: read_classes(tmp_path / "classes.txt")), DataError)
    assert isinstance(error_of(lambda: read_split(str(tmp_path / "classes.txt"), ["a"])), DataError)


def test_a_split_file_that_is_a_device_is_not_read(tmp_path):
    (tmp_path / "split.json").symlink_to("/dev/zero")
    error = error_of(lambda: read_split(str(tmp_path / "split.json"), ["a", "b"]))
    assert isinstance(error, DataError)
    assert "not a regular file" in str(error)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_check_of_many_pipes_and_images_can_be_stopped(tmp_path, number):
    """Threads that read must not keep a process alive that was asked to stop."""
    os.mkfifo(tmp_path / "pipe.jpg")
    for name in ("a", "b"):
        with (tmp_path / f"{name}.jpg").open("wb") as file:
            file.truncate(20 * 2**20)
    rows = "".join(f"{name}.jpg,cat\n" for name in ("pipe", "a", "b"))
    (tmp_path / "t.csv").write_text(f"image,labels\n{rows}")
    code = "import json, sys\nfrom tagloom.data.audit import audit\nfrom tagloom.data import load_table\n"
    code += "table = load_table(sys.argv[1])\nprint('ready', flush=True)\nwhile True: audit(table)\n"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "t.csv")], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        # Again: Python loses a Ctrl-C that comes while it runs the callback of a weak reference. But not at once: one
        # that comes while it ends can stop it from ending.
        for _ in range(3):
            time.sleep(1)
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                assert process.wait(SECONDS) != 0
                break
        assert process.poll() is not None
    finally:
        process.kill()
        process.communicate()


def test_json_of_a_table_is_read_up_to_a_cap_only(tmp_path, monkeypatch):
    monkeypatch.setattr("tagloom.data.formats.coco.MAX_JSON_BYTES", 10)
    (tmp_path / "t.json").write_text(json.dumps({"images": [], "annotations": []}))
    with pytest.raises(DataError, match="larger than 10 bytes"):
        load_table(tmp_path / "t.json")
