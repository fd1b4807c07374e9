"""Bad tables stop nothing: every one is read or refused with a `DataError` that says where, in time that grows with it.

Times are compared, never measured: of two tables, one eight times as long as the other, the longer one takes about
eight times as long to read, and where reading is quadratic 64 times.
"""

import encodings.aliases
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tagloom.data import load_table
from tagloom.data.audit import audit
from tagloom.data.parsing.fields import SEPARATORS, separator_by_classes, separator_by_look, split_labels
from tagloom.data.table import not_a_class
from tagloom.errors import DataError, TagloomError
from tagloom.labels.split import read_split

HERE = Path(__file__).parent
MOST_SECONDS = 20  # of one small table, on a machine that is busy with other things
MOST_MEGABYTES = 300
LONGEST_MESSAGE = 1500
TIMES, MOST_TIMES = 8, 32

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["CSV", "JSON lines", "COCO", "VOC", "Parquet", "lists"])
def test_damaged_tables_are_read_or_refused(kind, fuzz_rounds):
    if kind == "Parquet":
        pytest.importorskip("pyarrow")
    rounds = fuzz_rounds(5000)
    done = subprocess.run(
        [sys.executable, str(HERE / "damaged_tables.py"), kind, str(rounds)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert sum(found["results"].values()) == rounds
    assert found["results"]["read"] > 0.02 * rounds  # or the damage would be too coarse
    assert found["slowest"] < MOST_SECONDS
    assert found["memory"] < MOST_MEGABYTES


# Characters that mean something to one of the parsers, and some that mean trouble.
odd_text = st.text(st.sampled_from([*"ab1,;|\t\n\r\"'[]{}<>&:\\ -\0", "é", "\u0301", "\u202e", "\x1b", "\ufeff"]))
odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=8,
)


def error_of(work: Callable[[], object]) -> TagloomError | None:
    """Give the error of ours that a piece of work ends in, checked to be short."""
    try:
        work()
    except TagloomError as error:
        found = error
    else:
        return None
    assert len(str(found)) < LONGEST_MESSAGE
    return found


def loads_or_refuses(table: Path) -> None:
    error = error_of(lambda: load_table(table).fingerprint())
    assert error is None or str(error).startswith(str(table))


@in_one_folder
@given(text=odd_text, header=st.sampled_from(["", "image,labels\n", "image;cat\n", "image\tlabels\tx\n"]))
def test_any_text_is_a_table_or_refused(tmp_path, text, header):
    (tmp_path / "t.csv").write_text(header + text, encoding="utf-8", newline="")
    loads_or_refuses(tmp_path / "t.csv")


@in_one_folder
@given(rows=st.lists(st.dictionaries(st.sampled_from(["image", "labels", "cat", "\ud800"]) | odd_text, odd_values)))
def test_any_json_lines_are_a_table_or_refused(tmp_path, rows):
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    loads_or_refuses(tmp_path / "t.jsonl")


@in_one_folder
@given(
    images=st.lists(st.fixed_dictionaries({"id": st.integers(0, 3), "file_name": odd_text | odd_values})) | odd_values,
    categories=st.lists(st.fixed_dictionaries({"id": st.integers(0, 2), "name": odd_text | odd_values})) | odd_values,
    annotations=st.lists(st.dictionaries(st.sampled_from(["image_id", "category_id"]), st.integers(0, 3))) | odd_values,
)
def test_any_json_is_a_coco_file_or_refused(tmp_path, images, categories, annotations):
    content = {"images": images, "categories": categories, "annotations": annotations}
    (tmp_path / "t.json").write_text(json.dumps(content), encoding="utf-8")
    loads_or_refuses(tmp_path / "t.json")


@in_one_folder
@given(text=odd_text, before=st.sampled_from(["<annotation>", "<annotation><object><name>", "<a b='"]))
def test_any_text_is_an_annotation_or_refused(tmp_path, text, before):
    for name in ("JPEGImages", "Annotations"):
        (tmp_path / "VOC2007" / name).mkdir(parents=True, exist_ok=True)
    after = "".join(f"</{tag}>" for tag in re.findall(r"<(\w+)>", before)[::-1])
    (tmp_path / "VOC2007" / "Annotations" / "1.xml").write_text(before + text + after, encoding="utf-8", newline="")
    loads_or_refuses(tmp_path / "VOC2007")


@in_one_folder
@given(cells=st.lists(st.tuples(odd_values, odd_values), min_size=1, max_size=4))
def test_any_cells_of_parquet_are_a_table_or_refused(tmp_path, cells):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    try:
        columns = {"image": [image for image, _ in cells], "labels": [labels for _, labels in cells]}
        write_table(arrow.table(columns), tmp_path / "t.parquet")
    except (arrow.ArrowException, OverflowError, UnicodeError):
        return  # values that no Parquet file can hold together
    loads_or_refuses(tmp_path / "t.parquet")


@given(field=odd_text, separator=st.sampled_from(SEPARATORS))
def test_any_field_is_split_or_refused(field, separator):
    error_of(lambda: split_labels(field, separator))
    separator_by_look([field])
    separator_by_classes([field], {"a", "b"})


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the quickest of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def refused(work: Callable[[], object]) -> str:
    error = error_of(work)
    assert error is not None
    return str(error)


def _text_table(folder: Path, name: str, text: str) -> Callable[[], object]:
    (folder / name).write_text(text, encoding="utf-8")
    return lambda: load_table(folder / name)


def _annotation(folder: Path, inner: str) -> Callable[[], object]:
    for name in ("JPEGImages", "Annotations"):
        (folder / "VOC2007" / name).mkdir(parents=True)
    (folder / "VOC2007" / "Annotations" / "1.xml").write_text(f"<annotation>{inner}</annotation>", encoding="utf-8")
    return lambda: load_table(folder / "VOC2007")


def _object(name: str) -> str:
    return f"<object><name>{name}</name></object>"


# A size that takes milliseconds, and how to make a table of this size and read it.
LONG: dict[str, tuple[int, Callable[[Path, int], Callable[[], object]]]] = {
    "a list and blanks": (2_000, lambda _, n: lambda: separator_by_look([f"['a'{' ' * n}x]"])),
    "a list of many names and blanks": (1_000, lambda _, n: lambda: separator_by_look(["[" + "'a'  , " * n + "x]"])),
    "an open string in a list": (2_000, lambda _, n: lambda: separator_by_look(["['" + "\\'" * n + "]"])),
    "open quotes": (2_000, lambda _, n: lambda: split_labels('"a ""b ' * n, "|")),
    "quotes and blanks": (2_000, lambda _, n: lambda: split_labels(f'"a"{" " * n}b', ",")),
    "quotes between names": (2_000, lambda _, n: lambda: separator_by_look(['"a" b ' * n])),
    "columns": (2_000, lambda folder, n: _text_table(folder, "t.csv", _columns(n))),
    "columns, of which two have one name": (
        1_000,
        lambda folder, n: _text_table(folder, "t.csv", _columns(n).replace("\n", f",c{n - 1}\n", 1)),
    ),
    "quotes in a line": (
        4_000,
        lambda folder, n: _text_table(
            folder,
            "t.csv",
            "image,labels\na.jpg," + '"a" b, c' * n + '"\n',
        ),
    ),
    "loose quotes in a line": (
        4_000,
        lambda folder, n: _text_table(folder, "t.csv", "image,labels\na.jpg," + '"a" b ' * n + "\n"),
    ),
    "keys of JSON lines": (
        250,
        lambda folder, n: _text_table(
            folder, "t.jsonl", "\n".join(json.dumps({"image": f"{i}.jpg", f"key {i}": i % 2}) for i in range(n))
        ),
    ),
    "keys of JSON lines after a thousand full ones": (
        250,
        lambda folder, n: _text_table(
            folder,
            "t.jsonl",
            "\n".join(json.dumps({"image": f"{i}", "a" if i < 1000 else f"k{i}": 0}) for i in range(n + 1000)),
        ),
    ),
    "text of an annotation": (20_000, lambda folder, n: _annotation(folder, _object("a\n" * n))),
    "objects of an annotation": (
        1_000,
        lambda folder, n: _annotation(folder, "\n".join(_object(str(number)) for number in range(n))),
    ),
    "names next to a long one": (200, lambda _, n: lambda: not_a_class("ab" * n, ["ba" * n] * 5)),
    "unseen labels": (500, lambda folder, n: _split(folder, n)),
}


def _columns(count: int) -> str:
    names = ",".join(f"c{number}" for number in range(count))
    return f"image,{names}\na.jpg{',1' * count}\n"


def _split(folder: Path, count: int) -> Callable[[], object]:
    (folder / "unseen.txt").write_text("\n".join(f"class {number}" for number in range(count)), encoding="utf-8")
    classes = [f"class {number}" for number in range(2 * count)]
    return lambda: read_split(str(folder / "unseen.txt"), classes)


@pytest.mark.parametrize("kind", LONG)
def test_reading_takes_time_that_grows_with_the_table(tmp_path, kind):
    size, make = LONG[kind]
    times = []
    for count in (size, TIMES * size):
        folder = tmp_path / str(count)
        folder.mkdir()
        work = make(folder, count)

        times.append(seconds(lambda work=work: error_of(work)))
    assert times[1] < MOST_TIMES * max(times[0], 0.001)


def test_two_columns_of_one_name_are_found_among_thousands(tmp_path):
    text = _columns(20_000).replace("\n", ",c7\n", 1)
    assert "two columns are called 'c7'" in refused(_text_table(tmp_path, "t.csv", text))


def test_deep_xml_is_refused_at_its_line(tmp_path):
    deep = "\n<a>" * 40_000 + "</a>" * 40_000
    assert re.search(r"1\.xml, line \d+: tags are nested more than 100 deep", refused(_annotation(tmp_path, deep)))


def test_an_annotation_in_any_encoding_is_read_or_refused(tmp_path):
    _annotation(tmp_path, "")
    for encoding in ["x" * 5000, "", "idna", "undefined", *encodings.aliases.aliases.values()]:
        text = f'<?xml version="1.0" encoding="{encoding}"?><annotation>{_object("café")}</annotation>'
        (tmp_path / "VOC2007" / "Annotations" / "1.xml").write_bytes(text.encode("latin-1"))
        loads_or_refuses(tmp_path / "VOC2007")


def test_a_quote_that_never_closes_is_refused_before_the_whole_file_is_one_record(tmp_path):
    rows = "a.jpg,cat\n" * 100_000
    message = refused(_text_table(tmp_path, "t.csv", f'image,labels\nb.jpg,"cat\n{rows}'))
    assert "t.csv, line 2: quotes do not match" in message
    fields = '"a\n",' * 2_000_000
    assert "Is a closing quote missing?" in refused(_text_table(tmp_path, "u.csv", f"image,labels\n{fields}"))


def test_a_picture_inside_parquet_is_not_read_and_not_shown(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    pictures = [{"bytes": os.urandom(300_000), "path": f"{row}.jpg"} for row in range(3)]
    write_table(arrow.table({"image": pictures, "labels": ["cat"] * 3}), tmp_path / "t.parquet")
    message = refused(lambda: load_table(tmp_path / "t.parquet").path(0))
    assert "its images are packed, and this needs a file per image" in message
    times = arrow.array([1, 2, 3], "timestamp[ns]")
    columns = {"file_name": ["0.jpg", "1.jpg", "2.jpg"], "image": pictures, "when": times}
    write_table(arrow.table({**columns, "labels": [["cat"], [], ["cat"]]}), tmp_path / "u.parquet")
    table = load_table(tmp_path / "u.parquet", image_column="file_name")
    assert table.images == ["0.jpg", "1.jpg", "2.jpg"]
    assert table.ignored_columns == ("image", "when")
    write_table(arrow.table({**columns, "cat": [1, 0, 1]}), tmp_path / "v.parquet")
    message = refused(lambda: load_table(tmp_path / "v.parquet", image_column="file_name"))
    assert "row 1, column 'image': expected 1, 0, -1 or nothing, found struct<bytes" in message


def test_a_parquet_file_of_a_billion_equal_rows_is_refused(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    monkeypatch.setattr("tagloom.data.formats.parquet.MAX_ROWS", 10)
    write_table(arrow.table({"image": ["a.jpg"] * 11, "labels": ["cat"] * 11}), tmp_path / "t.parquet")
    assert "11 rows, more than 10" in refused(lambda: load_table(tmp_path / "t.parquet"))


HUGE = "x" * 1_000_000
IMAGES = [{"id": 1, "file_name": "t.json"}]  # whatever is in the folder
LONG_VALUES = {
    "a path": ("t.csv", f"image,labels\n{HUGE},cat\n", "t.csv, line 2: 'xxx"),
    "a mark": ("t.csv", f"image,cat\na.jpg,{HUGE}\n", "t.csv, line 2, column 'cat': expected"),
    "a column": ("t.csv", f"image,{HUGE}\na.jpg,maybe\n", "t.csv, line 2, column 'xxx"),
    "two columns": ("t.csv", f"image,{HUGE},{HUGE}\na.jpg,1,1\n", "t.csv, line 1: two columns are called 'xxx"),
    "an image twice": ("t.csv", f"image,labels\n{HUGE[:4000]},cat\n{HUGE[:4000]},dog\n", "t.csv, line 3: image 'xxx"),
    "a JSON line": ("t.jsonl", json.dumps(HUGE), "t.jsonl, line 1: expected a JSON object"),
    "an image of JSON": ("t.jsonl", json.dumps({"image": {"bytes": HUGE}, "labels": "a"}), "t.jsonl, line 1: no image"),
    "labels of JSON": ("t.jsonl", json.dumps({"image": "a", "labels": {"a": HUGE}}), "t.jsonl, line 1: labels must be"),
    "a deep cell": ("t.jsonl", f'{{"image": "a", "cat": {"[" * 900}{"]" * 900}}}', "t.jsonl, line 1, column 'cat'"),
    "a COCO category": (
        "t.json",
        json.dumps({"images": IMAGES, "annotations": [], "categories": [{"id": i, "name": HUGE} for i in (1, 2)]}),
        "t.json: class names must differ",
    ),
    "a surrogate": ("t.jsonl", '{"image": "a.jpg", "labels": ["\\ud800"]}', "t.jsonl: class names must be UTF-8 text"),
}


@pytest.mark.parametrize("kind", LONG_VALUES)
def test_messages_say_where_and_show_values_in_short(tmp_path, kind):
    name, text, beginning = LONG_VALUES[kind]
    message = refused(_text_table(tmp_path, name, text))
    assert message.removeprefix(f"{tmp_path}{os.sep}").startswith(beginning)


def test_a_label_that_is_no_class_is_named_in_short(tmp_path):
    (tmp_path / "classes.txt").write_text("cat\n")
    message = refused(_text_table(tmp_path, "t.csv", f"image,labels\na.jpg,{HUGE}\n"))
    assert "t.csv, line 2: label 'xxx" in message


def test_a_path_longer_than_any_file_system_allows_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        load_table(tmp_path / ("x" * 5000))


def test_paths_that_leave_the_folder_are_found(tmp_path):
    rows = ["a.jpg", "b/../c.jpg", "../d.jpg", "b/../../e.jpg", "/etc/passwd", str(tmp_path / "f.jpg")]
    (tmp_path / "t.csv").write_text("image,labels\n" + "".join(f"{row},cat\n" for row in rows))
    found = audit(load_table(tmp_path / "t.csv"))
    assert found.paths_outside == ["../d.jpg", "b/../../e.jpg"]
    assert found.absolute_paths == ["/etc/passwd", str(tmp_path / "f.jpg")]
