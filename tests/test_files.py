"""A file appears under its name when it is complete, and not before."""

import pytest

from tagloom.files import whole_file


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
