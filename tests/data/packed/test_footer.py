"""Footers that would make pyarrow end the process are refused before it sees them."""

import datetime
import io

import numpy as np
import pytest

from tagloom.data import load_table
from tagloom.data.packed.footer import check_levels, read_footer
from tagloom.errors import DataError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def table() -> "pa.Table":
    """Every kind of column that a stranger may have: nested, empty, decimal, dictionary, map."""
    return pa.table(
        {
            "image": ["a.jpg", "b.jpg", None],
            "labels": [["cat", "dog"], [], None],
            "deep": [[[1, 2], []], None, [None]],
            "struct": [{"x": 1, "y": "z"}, {"x": None, "y": None}, None],
            "flag": [True, False, None],
            "when": [datetime.datetime(2026, 1, 1)] * 3,
            "number": np.array([1.5, 2.5, 3.5], np.float32),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
            "coded": pa.array(["u", "v", "u"]).dictionary_encode(),
        }
    )


def levels(file) -> list[tuple[int, int]]:
    columns = [file.schema.column(index) for index in range(file.metadata.num_columns)]
    return [(leaf.max_repetition_level, leaf.max_definition_level) for leaf in columns]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 1},
        {"write_statistics": False},
        {"write_page_index": True},
        {"version": "1.0"},
        {"compression": "none"},
    ],
    ids=str,
)
def test_footers_of_honest_files_are_followed_to_their_end(table, options):
    stream = io.BytesIO()
    parquet.write_table(table, stream, **options)
    footer = read_footer(stream)
    assert footer
    check_levels("honest", footer, levels(parquet.ParquetFile(stream)))


def test_levels_that_do_not_fit_are_found(table):
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    found = levels(parquet.ParquetFile(stream))
    wrong = [(repetition, definition + 1) for repetition, definition in found]
    with pytest.raises(DataError, match="odd: the statistics of its column 1 do not fit it"):
        check_levels("odd", read_footer(stream), wrong)
    with pytest.raises(DataError, match="do not fit"):
        check_levels("odd", read_footer(stream), found[:1])


def test_every_changed_byte_of_a_footer_is_survived(tmp_path):
    parquet.write_table(
        pa.table({"image": ["a.jpg", "b.jpg"], "labels": [["cat"], ["dog", "cat"]]}), tmp_path / "good.parquet"
    )
    good = (tmp_path / "good.parquet").read_bytes()
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    unfit = 0
    for place in range(footer, len(good) - 8):
        for value in (good[place] ^ 1, good[place] ^ 16):
            path = tmp_path / "changed.parquet"
            path.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
            try:
                load_table(path)
            except DataError as error:
                unfit += "do not fit" in str(error)
    assert unfit, "pyarrow would have ended the process"


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"\xff" * 40, b"x" * 20 + b"\x05\x00\x00\x00PAR1", b"y" * 4 + b"\xff\xff\xff\xffPAR1"]
)
def test_what_is_no_footer_is_left_to_pyarrow_or_refused(data):
    footer = read_footer(io.BytesIO(data))
    if footer:
        with pytest.raises(DataError, match="cannot be followed"):
            check_levels("junk", footer, [])
