"""Text that a few bytes of Parquet repeat in very many rows: refused, or read in little memory."""

import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tagloom.data import load_table
from tagloom.data.packed import text
from tagloom.data.packed.packing import pack
from tagloom.data.packed.text import cells_of, open_text
from tagloom.errors import DataError

ROWS = 2048
HUGE = "x" * 1_200_000
NAMES = [f"{row}.jpg" for row in range(ROWS)]


def repeated(cell: str, rows: int = ROWS) -> pa.Array:
    """One text that all rows refer to."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([cell]))


def in_lists(values: pa.Array, rows: int = ROWS) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.linspace(0, len(values), rows + 1).astype(np.int32)), values)


def write(path: Path, **columns: object) -> Path:
    # Without Arrow's own schema, these are ordinary columns of text to whoever reads them.
    parquet.write_table(
        pa.table(columns), path, compression="zstd", store_schema=False, dictionary_pagesize_limit=2**24
    )
    assert path.stat().st_size < 40_000
    return path


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


HOSTILE = {
    "labels": {"image": NAMES, "labels": repeated(HUGE)},
    "lists of labels": {"image": NAMES, "labels": in_lists(repeated(HUGE))},
    "names of images": {"image": repeated(HUGE), "labels": ["cat"] * ROWS},
    "a column of neither": {"image": NAMES, "labels": ["cat"] * ROWS, "notes": repeated(HUGE)},
    "names of pictures": {
        "image": pa.StructArray.from_arrays([pa.array([b"p"] * ROWS), repeated(HUGE)], ["bytes", "path"]),
        "labels": ["cat"] * ROWS,
    },
    "names of pictures with unknown pairs": {
        "image": pa.StructArray.from_arrays([pa.array([b"p"] * ROWS), repeated(HUGE)], ["bytes", "path"]),
        "labels": [["cat"]] * ROWS,
        "unknown": [["dog"]] * ROWS,
    },
}


@pytest.mark.parametrize("columns", HOSTILE.values(), ids=HOSTILE)
def test_a_huge_text_in_many_rows_is_refused_in_little_memory(tmp_path, columns):
    path = write(tmp_path / "t.parquet", **columns)
    before = peak()
    with pytest.raises(DataError, match=r"holds a text of 1,200,000 bytes.*remove its column"):
        load_table(path)
    assert peak() - before < 100_000, "KiB; as rows they are 2.4 GB"


def test_texts_of_a_lawful_length_cannot_add_up_either(tmp_path):
    labels = "|".join(f"{number:06}" for number in range(100_000))
    path = write(tmp_path / "t.parquet", image=NAMES, labels=repeated(labels[:200_000]))
    before = peak()
    with pytest.raises(DataError, match="repeats its texts until they are more than 390 MiB, from a file of"):
        load_table(path)
    assert peak() - before < 100_000


def test_a_text_that_is_packed_a_thousand_times_smaller_is_not_unpacked(tmp_path):
    path = tmp_path / "t.parquet"
    huge = pa.array(["x" * 50_000_000])
    parquet.write_table(
        pa.table({"image": ["a.jpg"], "labels": huge}), path, compression="zstd", write_statistics=False
    )
    with pytest.raises(DataError, match=r"claims 50,\d+,\d+ bytes of text in"):
        load_table(path)


def test_one_row_cannot_list_a_text_without_end(tmp_path):
    path = write(tmp_path / "t.parquet", image=["a.jpg"], labels=in_lists(repeated("cat" * 1000, 1_000_000), rows=1))
    with pytest.raises(DataError, match="repeats its texts"):
        load_table(path)


def test_lists_that_claim_billions_of_entries_are_refused_by_the_footer(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_LIST_ENTRIES", 10_000)
    path = write(tmp_path / "t.parquet", image=["a.jpg"], labels=in_lists(repeated("cat", 1_000_000), rows=1))
    with pytest.raises(DataError, match=r"claim 1,000,000 entries in \d+ bytes"):
        load_table(path)


def test_more_different_text_than_memory_should_hold_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_DIFFERENT_BYTES", 10_000)
    path = tmp_path / "t.parquet"
    table = pa.table({"image": NAMES, "labels": ["cat"] * ROWS})
    parquet.write_table(table, path)
    with pytest.raises(DataError, match="fewer rows per row group"):
        load_table(path)
    parquet.write_table(table, path, row_group_size=500)
    assert len(load_table(path)) == ROWS


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_a_table_reads_the_same_in_every_encoding(tmp_path, encoding):
    labels = ["cat|dog", None, "", "dog"] * (ROWS // 4)
    plain, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    parquet.write_table(pa.table({"image": NAMES, "labels": labels}), plain)
    encodings = {"image": encoding, "labels": encoding}
    parquet.write_table(
        pa.table({"image": NAMES, "labels": labels}), other, use_dictionary=False, column_encoding=encodings
    )
    expected, found = load_table(plain), load_table(other)
    assert list(found.images) == list(expected.images) == NAMES
    assert (found.positive != expected.positive).nnz == 0


def test_a_text_that_shares_its_beginning_with_the_row_before_is_refused_too(tmp_path):
    """Encoded so, each row says only how much of the text before it stays."""
    path = tmp_path / "t.parquet"
    encodings = {"image": "PLAIN", "labels": "DELTA_BYTE_ARRAY"}
    table = pa.table({"image": NAMES[:300], "labels": [HUGE] * 300})
    parquet.write_table(table, path, use_dictionary=False, column_encoding=encodings, compression="zstd")
    lists = tmp_path / "lists.parquet"
    encodings = {"image": "PLAIN", "labels.list.element": "DELTA_BYTE_ARRAY"}
    table = pa.table({"image": NAMES[:300], "labels": [[HUGE]] * 300})
    parquet.write_table(table, lists, use_dictionary=False, column_encoding=encodings, compression="zstd")
    before = peak()
    with pytest.raises(DataError, match="holds a text of 1,200,000 bytes"):
        load_table(path)
    with pytest.raises(DataError, match="can repeat a text without limit"):
        load_table(lists)
    assert peak() - before < 100_000


def test_cells_are_those_of_arrow(tmp_path):
    columns = {
        "text": ["a", None, "", "ü", "a"],
        "lists": [["a", "b"], None, [], ["b", None], ["a"]],
        "deep": [[["a"], []], None, [], [["b"], None], [["a", "a"]]],
        "numbers": [1, None, 3, 4, 5],
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=3)
    with open_text(str(tmp_path / "t.parquet"), columns) as opened:
        batches = list(opened.batches(list(columns)))
    for name, cells in columns.items():
        assert [cell for batch in batches for cell in cells_of(batch.column(name).slice(0))] == cells
        assert cells_of(batches[0].column(name).slice(1)) == cells[1:3]


def test_labels_whose_inside_has_another_name_are_read_as_numbers(photos, tmp_path):
    pack(photos, tmp_path / "good")
    table = parquet.read_table(tmp_path / "good" / "train-00000.parquet")
    parquet.write_table(table, tmp_path / "t.parquet", use_compliant_nested_type=False)
    assert (load_table(tmp_path / "t.parquet").positive != photos.positive).nnz == 0
