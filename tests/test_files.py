"""A file appears under its name when it is complete, and not before."""

import errno
import os
import threading
from pathlib import Path

import pytest

from tagloom.files import remove_partial_files, whole_file


def test_readers_see_the_old_file_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("before")
    with whole_file(path) as partial:
        partial.write_text("af")
        assert path.read_text() == "before"
        partial.write_text("after")
    assert path.read_text() == "after"
    assert [found.name for found in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("before")

    def write():
        with whole_file(path) as partial:
            partial.write_text("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        write()
    assert path.read_text() == "before"
    assert [found.name for found in tmp_path.iterdir()] == ["notes.txt"]


def test_writers_of_one_file_never_mix_their_bytes(tmp_path):
    path, contents = tmp_path / "notes.txt", [letter * 100_000 for letter in "abcd"]

    def write(content):
        for _ in range(20):
            with whole_file(path) as partial, partial.open("w") as file:
                for part in range(0, len(content), 10_000):
                    file.write(content[part : part + 10_000])

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not path.exists() or path.read_text() in contents
    assert path.read_text() in contents
    assert [found.name for found in tmp_path.iterdir()] == ["notes.txt"]


def test_file_and_folder_are_flushed_to_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(Path(f"/proc/self/fd/{file}").readlink()))
    with whole_file(tmp_path / "notes.txt") as partial:
        partial.write_text("after")
    assert flushed == [partial, tmp_path]


def test_an_error_of_the_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*notes.txt'"), whole_file(tmp_path / "notes.txt"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    remove_partial_files(tmp_path / "nothing here")
    writing = whole_file(tmp_path / "notes.txt")
    writing.__enter__().write_text("half")
    (tmp_path / "mine.partial").write_text("kept")
    (tmp_path / "notes.txt").write_text("kept")
    remove_partial_files(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.partial", "notes.txt"}
