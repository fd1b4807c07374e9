import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tagloom.data import load_table
from tagloom.data.label_tree import LabelTree, parents_of_paths
from tagloom.data.parsing import lines
from tagloom.data.parsing.fields import SEPARATORS, join_labels
from tagloom.errors import DataError

BENCH = Path(__file__).parents[2] / "bench" / "table_memory.py"


def write(folder, text, name="labels.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def labels_of(table):
    return {
        image: {table.classes[column] for column in np.flatnonzero(row)}
        for image, row in zip(table.images, table.targets(slice(None)), strict=True)
    }


@pytest.mark.parametrize(
    "text",
    [
        "image,labels\na.jpg,dog|dining table\nb.jpg,\nc.jpg,dog\n",
        "image,labels\r\na.jpg,dog|dining table\r\n\r\nb.jpg,\r\nc.jpg,dog",
        "\ufeffimage,labels\na.jpg,dog|dining table\nb.jpg,\nc.jpg,dog\n",
        "\n\nimage,labels\n\na.jpg,dog|dining table\n   \nb.jpg,\nc.jpg,dog\n\n",
        'image,labels\na.jpg,"dog, dining table"\nb.jpg,""\nc.jpg,dog\n',
        "image,labels\na.jpg,dog;dining table\nb.jpg,\nc.jpg,dog\n",
        'image,labels\na.jpg,"dining table" dog\nb.jpg,\nc.jpg,dog\n',
        'image,labels\na.jpg,dog "dining table"\nb.jpg,\nc.jpg,dog\n',
        'image,labels\na.jpg,"""dining table"" dog"\nb.jpg,\nc.jpg,dog\n',
        "image,labels\na.jpg,\"['dog', 'dining table']\"\nb.jpg,[]\nc.jpg,['dog']\n",
        "image\tlabels\na.jpg\tdog,dining table\nb.jpg\t\nc.jpg\tdog\n",
        "image;labels\na.jpg;dog|dining table\nb.jpg;\nc.jpg;dog\n",
        "width,tags,File Name\n3,dog|dining table,a.jpg\n4,,b.jpg\n5,dog,c.jpg\n",
        "photos we took,Category\na.jpg,dog|dining table\nb.jpg,\nc.jpg,dog\n",
        "image,labels\na.jpg,dog|dining table\nb.jpg,\nc.jpg,dog\na.jpg,dining table|dog|dog\n",
    ],
)
def test_every_way_to_write_it_means_the_same_table(tmp_path, text):
    table = load_table(write(tmp_path, text))
    assert table.images == ["a.jpg", "b.jpg", "c.jpg"]
    assert table.classes == ("dining table", "dog")
    assert labels_of(table) == {"a.jpg": {"dog", "dining table"}, "b.jpg": set(), "c.jpg": {"dog"}}
    assert table.known(slice(None)).all()
    assert (table.root, table.task, table.unlisted) == (tmp_path, "multi", "negative")
    assert table.source == str(tmp_path / "labels.csv")


def test_class_columns_tell_positive_negative_and_unknown(tmp_path):
    text = "image,dog,cat,bird\na.jpg,1,0,-1\nb.jpg,1.0,,0.0\nc.jpg,True,False,nan\nd.jpg, 0 ,1,0\n"
    table = load_table(write(tmp_path, text))
    assert table.classes == ("bird", "cat", "dog")
    np.testing.assert_array_equal(table.targets(slice(None)), [[0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(table.known(slice(None)), [[0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]])


@pytest.mark.parametrize(("cell", "unlisted"), [("", "unknown"), ("0", "negative")])
def test_class_columns_are_stored_by_what_is_rarer(tmp_path, cell, unlisted):
    rare = "0" if cell == "" else ""
    header = "image," + ",".join(f"c{number}" for number in range(6))
    table = load_table(write(tmp_path, f"{header}\na.jpg,1,{rare},{cell},{cell},{cell},{cell}\n"))
    assert table.unlisted == unlisted
    assert table.exceptions.nnz == 1
    np.testing.assert_array_equal(table.known([0])[0], [True, rare == "0"] + [cell == "0"] * 4)


def test_class_columns_without_unknowns_need_no_exceptions(tmp_path):
    assert load_table(write(tmp_path, "image,dog\na.jpg,1\nb.jpg,0\n")).exceptions is None


def test_an_index_column_without_a_name_is_not_a_class(tmp_path):
    table = load_table(write(tmp_path, ",image,dog,cat\n0,a.jpg,1,0\n1,b.jpg,0,1\n"))
    assert table.classes == ("cat", "dog")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
            | st.text("ab |;,\"\n\r\t['", min_size=1, max_size=6),
            unique=True,
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    ).filter(any),
    st.sampled_from([separator for separator in SEPARATORS if separator]),
    st.sampled_from([",", "\t"]),
    st.booleans(),
)
def test_a_written_table_is_read_back_whatever_its_class_names(tmp_path, column, separator, delimiter, tell_classes):
    path = tmp_path / "labels.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["image", "labels"])
        writer.writerows([f"{row}.jpg", join_labels(names, separator)] for row, names in enumerate(column))
    classes = sorted({name for names in column for name in names})
    assume(not LabelTree(classes, parents_of_paths(classes)))  # in a tree, a label brings those above it
    options = {"classes": classes, "separator": separator} if tell_classes else {}
    table = load_table(path, **options)
    assert list(table.classes) == classes
    assert labels_of(table) == {f"{row}.jpg": set(names) for row, names in enumerate(column)}


def test_the_order_of_classes_is_the_one_given_then_the_file_then_sorted(tmp_path):
    path = write(tmp_path, "image,labels\na.jpg,dog\nb.jpg,cat\n")
    assert load_table(path).classes == ("cat", "dog")
    write(tmp_path, "\ufeffdog\r\ncat \r\n\r\nbird\r\n", "classes.txt")
    table = load_table(path)
    assert table.classes == ("dog", "cat", "bird")
    assert labels_of(table) == {"a.jpg": {"dog"}, "b.jpg": {"cat"}}
    table = load_table(path, classes=["bird", "cat", "dog"])
    assert table.classes == ("bird", "cat", "dog")
    assert labels_of(table) == {"a.jpg": {"dog"}, "b.jpg": {"cat"}}


def test_given_classes_order_class_columns_and_distinguish_them_from_a_label_column(tmp_path):
    path = write(tmp_path, "image,tag,dog\na.jpg,1,0\n")
    table = load_table(path, classes=["tag", "dog"])
    assert labels_of(table) == {"a.jpg": {"tag"}}
    assert load_table(path).classes == ("1",)  # without classes, a column called tag holds labels


def test_given_classes_let_spaces_separate(tmp_path):
    path = write(tmp_path, "image,labels\na.jpg,haze primary\nb.jpg,clear\n")
    assert load_table(path).classes == ("clear", "haze primary")
    assert labels_of(load_table(path, classes=["clear", "haze", "primary"]))["a.jpg"] == {"haze", "primary"}
    assert labels_of(load_table(path, separator=" "))["a.jpg"] == {"haze", "primary"}


def test_columns_that_are_neither_images_nor_labels_are_noted(tmp_path):
    assert load_table(write(tmp_path, "image,labels\na.jpg,x\n")).ignored_columns == ()
    table = load_table(write(tmp_path, ",split,image,labels,width\n0,train,a.jpg,x,640\n"))
    assert table.ignored_columns == ("split", "width")
    assert load_table(write(tmp_path, "image,dog,width\na.jpg,1,0\n")).ignored_columns == ()  # all are classes


@pytest.mark.parametrize(
    "text",
    [
        "image,labels\na.jpg,x|y\nb.jpg,x\na.jpg,y|x\nb.jpg,x\nb.jpg,x\n",
        "image,x,y\na.jpg,1,1\nb.jpg,1,0\na.jpg,1,1\nb.jpg,1,0\nb.jpg,1,0\n",
    ],
)
def test_rows_that_repeat_an_earlier_one_are_counted(tmp_path, text):
    table = load_table(write(tmp_path, text))
    assert (table.images, table.repeated) == (["a.jpg", "b.jpg"], 3)


def test_columns_and_the_image_folder_can_be_chosen(tmp_path):
    path = write(tmp_path, "image,labels,thumb,moods\na.jpg,x,t.jpg,calm\n")
    table = load_table(path, image_column="thumb", label_column="moods", images=tmp_path / "pictures")
    assert table.path(0) == tmp_path / "pictures" / "t.jpg"
    assert table.classes == ("calm",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("image,labels\n", "a header but no rows"),
        ("image\na.jpg\n", "only the column 'image'"),
        ("image,labels,labels\na.jpg,x,y\n", "line 1: two columns are called 'labels'"),
        ("image,labels\na.jpg,x\nb.jpg,x,y\n", "line 3: found 3 fields, but the header has 2"),
        ("image,labels\na.jpg,x\n\nb.jpg\n", "line 4: found 1 fields"),
        ("image,labels\n,x\n", "line 2: no image path"),
        ("image,labels\na\0.jpg,x\n", "line 2: .* is not a path"),
        (f"image,labels\n{'a' * 5000},x\n", "line 2: .* is not a path"),
        ("image,labels\na.jpg,x\nb.jpg,y\na.jpg,x|y\n", "line 4: image 'a.jpg' is already on line 2"),
        ('image,labels\na.jpg,x\nb.jpg,"never closed\nc.jpg,y\n', "line 3: quotes do not match"),
        ("image,labels\na.jpg,\nb.jpg,\n", "'labels' is empty in every row"),
        ("image,dog\na.jpg,1\nb.jpg,maybe\n", "line 3, column 'dog': expected 1, 0, -1 or nothing, found 'maybe'"),
        (
            "photo,moods\nx/1.jpg,dog|cat\n",
            "line 2, column 'moods': expected .*, found 'dog|cat'.*--data-option label_column=NAME",
        ),
        ("x/1.jpg,dog|cat\nx/2.jpg,dog\n", "line 1: the first row looks like data: .*'x/1.jpg'.*'image,labels'"),
        ("\n1\tB.JPEG\tdog\n2\tc.jpg\tdog\n", r"line 2: the first row looks like data: .*'B.JPEG'.*'image\\tlabels'"),
        ("a.jpg,dog\n", "line 1: the first row looks like data"),
        ("a.jpg,dog,dog\nb.jpg,dog\n", "line 1: the first row looks like data"),
        ("17,dog|cat\n18,dog\n", "line 2, column 'dog|cat': .* put a header above it"),
        (b"image,labels\na.jpg,caf\xe9\n", "not UTF-8"),
        ("image,labels\na.jpg,x\n".encode("utf-16"), "not UTF-8"),
    ],
)
def test_errors_name_the_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=message.replace("|", r"\|")) as caught:
        load_table(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,labels\na.jpg,dog\nb.jpg,doog\n", "line 3: label 'doog' is not one of the 2 classes. Nearest: 'dog'"),
        ("image,dog,cat,hat\na.jpg,1,0,1\n", "column 'hat': label 'hat' is not one of"),
        ("image,dog\na.jpg,1\n", "no column for 'cat'"),
    ],
)
def test_labels_outside_the_given_classes_are_named_with_the_nearest(tmp_path, text, message):
    path = write(tmp_path, text)
    for classes in (["dog", "cat"], None):
        if classes is None:
            write(tmp_path, "dog\ncat\n", "classes.txt")
        with pytest.raises(DataError, match=message):
            load_table(path, classes=classes)


@pytest.mark.parametrize(
    ("classes", "message"),
    [("dog\ncat\ndog\n", "line 3: class 'dog' is already on line 1"), ("\n", "no class names"), (b"\xff", "not UTF-8")],
)
def test_a_bad_list_of_classes_is_refused(tmp_path, classes, message):
    path = write(tmp_path, "image,labels\na.jpg,dog\n")
    write(tmp_path, classes, "classes.txt")
    with pytest.raises(DataError, match=message):
        load_table(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": "/"}, "cannot be separated by '/'"),
        ({"image_column": "photo"}, "no column 'photo'. Columns: 'image', 'labels'"),
        ({"label_column": "tags"}, "no column 'tags'"),
        ({"seperator": "|"}, "unknown option for CSV .*'seperator': did you mean 'separator'"),
        ({"split": "train"}, "unknown option for CSV"),
        ({"classes": "dog"}, "classes must be a list of names"),
        ({"classes": ["dog", "dog"]}, "found 'dog' 2 times"),
        ({"classes": ["dog", ""]}, "different names, found ''"),
        ({"separator": "list"}, "line 2: 'dog' is not a list of names"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path, options, message):
    with pytest.raises(DataError, match=message):
        load_table(write(tmp_path, "image,labels\na.jpg,dog\n"), **options)


def test_quoted_names_may_span_lines_and_line_numbers_stay_right(tmp_path):
    path = write(tmp_path, 'image,labels\na.jpg,"two\n\nlines"\nb.jpg,x,y\n')
    with pytest.raises(DataError, match="line 5"):
        load_table(path)
    path = write(tmp_path, 'image,labels\na.jpg,"two\n\nlines|dog"\nb.jpg,dog\n')
    assert labels_of(load_table(path))["a.jpg"] == {"two\n\nlines", "dog"}


def test_an_inch_mark_is_not_a_quote(tmp_path):
    table = load_table(write(tmp_path, 'image,labels\na.jpg,5" nail|bolt\nb.jpg,6" nail\n'))
    assert table.classes == ('5" nail', '6" nail', "bolt")


def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    with pytest.raises(DataError, match="line 2: longer than 1000"):
        load_table(write(tmp_path, f"image,labels\na.jpg,{'x|' * 600}\n"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_large_table_takes_little_more_memory_than_its_pairs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCH.parent)
    spec = importlib.util.spec_from_file_location("table_memory", BENCH)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    bench.write_table(tmp_path / "labels.csv", rows=100_000, classes=9_600)
    run = [sys.executable, str(BENCH), "--load", str(tmp_path / "labels.csv")]
    found = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert found["rows"] == 100_000
    # A million rows may take 2 GB, so a tenth of them a tenth of that, on top of the imports.
    assert found["peak_mb"] - found["imports_mb"] < 200
