"""Parquet, JSON lines, image folders, class folders, and recognising the format."""

import inspect
import json
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tagloom.data
from tagloom.data import LabelTable, load_table
from tagloom.data.formats import FORMATS
from tagloom.errors import DataError, MissingExtraError, TagloomError

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None
needs_pyarrow = pytest.mark.skipif(pyarrow is None, reason="the small install has no pyarrow")


def labels_of(table):
    return {
        image: {table.classes[column] for column in np.flatnonzero(row)}
        for image, row in zip(table.images, table.targets(slice(None)), strict=True)
    }


def write_parquet(folder, **columns):
    path = folder / "labels.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def write_lines(folder, *records, name="metadata.jsonl"):
    path = folder / name
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n", encoding="utf-8")
    return path


EXPECTED = {"a.jpg": {"dog", "dining table"}, "b.jpg": set()}


@needs_pyarrow
@pytest.mark.parametrize(
    "labels",
    [
        ["dog|dining table", ""],
        ["dog|dining table", None],
        [["dog", "dining table"], []],
        [["dog", "dining table"], None],
    ],
)
def test_parquet_and_json_lines_say_what_csv_says(tmp_path, labels):
    images = ["a.jpg", "b.jpg"]
    assert labels_of(load_table(write_parquet(tmp_path, image=images, labels=labels))) == EXPECTED
    records = [{"file_name": image, "labels": cell} for image, cell in zip(images, labels, strict=True)]
    path = write_lines(tmp_path, *records)
    assert labels_of(load_table(path)) == EXPECTED
    assert labels_of(load_table(tmp_path)) == EXPECTED


@needs_pyarrow
def test_class_columns_are_read_from_parquet_and_json_lines(tmp_path):
    path = write_parquet(tmp_path, image=["a", "b", "c"], dog=[1, 0, -1], cat=[True, False, None], cow=[0.0, None, 1.0])
    lines = [{"image": "a", "dog": 1, "cat": True, "cow": 0}, {"image": "b", "dog": 0, "cat": False}]
    lines.append({"image": "c", "dog": -1, "cow": 1.0})
    for table in (load_table(path), load_table(write_lines(tmp_path, *lines, name="labels.jsonl"))):
        assert table.classes == ("cat", "cow", "dog")
        np.testing.assert_array_equal(table.targets(slice(None)), [[1, 0, 1], [0, 0, 0], [0, 1, 0]])
        np.testing.assert_array_equal(table.known(slice(None)), [[1, 1, 1], [1, 0, 1], [0, 1, 0]])


@needs_pyarrow
def test_whole_numbers_are_names_too(tmp_path):
    path = write_parquet(tmp_path, image=["a.jpg", "b.jpg"], label=[3, 12])
    assert load_table(path).classes == ("12", "3")


@needs_pyarrow
def test_parquet_errors_name_the_row(tmp_path):
    path = write_parquet(tmp_path, image=["a.jpg", None], labels=["dog", "dog"])
    with pytest.raises(DataError, match=r"labels.parquet, row 2: no image path"):
        load_table(path)
    path = write_parquet(tmp_path, image=["a.jpg"], labels=[{"x": 1}])
    with pytest.raises(DataError, match="row 1: labels must be names"):
        load_table(path)
    with pytest.raises(DataError, match="0 rows"):
        load_table(write_parquet(tmp_path, image=pyarrow.array([], "string"), labels=pyarrow.array([], "string")))
    path.write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(DataError, match="not a Parquet file"):
        load_table(path)


@needs_pyarrow
def test_parquet_without_its_extra_says_what_to_install(tmp_path, monkeypatch):
    path = write_parquet(tmp_path, image=["a.jpg"], labels=["dog"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagloom\[parquet\]'"):
        load_table(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"file_name": "a.jpg", "labels": ["x"]}\n{"file_name": \n', "line 2: not JSON"),
        ("\n[1, 2]\n", "line 2: expected a JSON object, found"),
        ("", "no records"),
        ("[" * 50_000, "line 1: not JSON"),
        ('{"file_name": "a.jpg", "labels": [["x"]]}', "line 1: labels must be names"),
        ('{"file_name": "a.jpg", "labels": {"name": "x"}}', "line 1: labels must be names"),
        ('{"file_name": ["a.jpg"], "labels": ["x"]}', "line 1: no image path"),
    ],
)
def test_bad_json_lines_are_refused_with_their_line(tmp_path, text, message):
    (tmp_path / "metadata.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        load_table(tmp_path)


def test_an_image_folder_reads_its_metadata_csv_with_its_options(tmp_path):
    (tmp_path / "metadata.csv").write_text("file_name,caption,mood\nsub/a.jpg,A dog; asleep,calm day\n")
    table = load_table(tmp_path, label_column="mood", separator=" ")
    assert table.classes == ("calm", "day")
    assert table.path(0) == tmp_path / "sub" / "a.jpg"


def test_two_metadata_files_are_ambiguous(tmp_path):
    (tmp_path / "metadata.csv").write_text("file_name,labels\na.jpg,x\n")
    write_lines(tmp_path, {"file_name": "a.jpg", "labels": ["x"]})
    with pytest.raises(DataError, match="found both"):
        load_table(tmp_path)


@pytest.fixture
def class_folders(tmp_path):
    for name in ("dog/2.JPG", "dog/1.jpg", "cat/3.png", "dog/.hidden.jpg", "dog/notes.txt", ".git/x.jpg", "stray.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_one_folder_per_class_is_a_single_label_table(class_folders):
    table = load_table(class_folders)
    assert table.task == "single"
    assert table.classes == ("cat", "dog", "empty")
    assert table.images == ["cat/3.png", "dog/1.jpg", "dog/2.JPG"]
    np.testing.assert_array_equal(table.targets(slice(None)), [[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert load_table(class_folders, classes=["empty", "dog", "cat", "cow"]).targets([0]).tolist() == [[0, 0, 1, 0]]


def test_folders_of_splits_are_not_taken_for_classes(tmp_path):
    (tmp_path / "train" / "dog").mkdir(parents=True)
    (tmp_path / "train" / "dog" / "1.jpg").touch()
    with pytest.raises(DataError, match=r"two folders below .*such as .*train"):
        load_table(tmp_path)
    assert load_table(tmp_path / "train").classes == ("dog",)


@pytest.mark.parametrize("name", ["nowhere", "nowhere.csv"])
def test_a_path_that_does_not_exist_lists_the_formats(tmp_path, name):
    with pytest.raises(DataError, match=r"no such file or folder. Tagloom reads .*Pascal VOC.*COCO.*per class"):
        load_table(tmp_path / name)


def test_a_folder_without_labels_lists_the_formats_and_the_tables_in_it(tmp_path):
    (tmp_path / "picture.jpg").touch()
    with pytest.raises(DataError, match=r"found no labels here. Tagloom reads"):
        load_table(tmp_path)
    (tmp_path / "train.csv").write_text("image,labels\na.jpg,x\n")
    with pytest.raises(DataError, match=r"Did you mean .*train.csv\?"):
        load_table(tmp_path)


@pytest.mark.parametrize("name", ["table.xlsx", "noname"])
def test_a_file_of_another_kind_lists_the_formats(tmp_path, name):
    (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match="Tagloom reads"):
        load_table(tmp_path / name)


def test_a_path_with_a_zero_byte_is_refused():
    with pytest.raises(DataError, match="zero byte"):
        load_table("a\0.csv")


HOSTILE = st.binary(max_size=60) | st.text(
    st.sampled_from("image,labels\n\t\"|;[]{}:'\\\0 01-1<>&!é"), max_size=80
).map(str.encode)
OPENINGS = [b"", b"image,labels\n", b"image,dog\n", b'{"image": "a", "labels": ', b'{"images": [', b"PAR1"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(st.sampled_from(["csv", "tsv", "jsonl", "json", "parquet"]), st.sampled_from(OPENINGS), HOSTILE)
def test_any_bytes_give_a_table_or_a_tagloom_error(tmp_path, suffix, opening, rest):
    path = tmp_path / f"labels.{suffix}"
    path.write_bytes(opening + rest)
    try:
        table = load_table(path)
    except TagloomError:
        return
    assert len(table) > 0
    assert table.classes


@pytest.mark.parametrize("entry", FORMATS, ids=lambda entry: entry.name)
def test_every_format_names_the_options_that_its_reader_takes(entry):
    parameters = inspect.signature(entry.read).parameters.values()
    own = tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)
    shared = next((parameter for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), None)
    if shared is not None:  # **options: Unpack[SheetOptions]
        own += tuple(get_args(shared.annotation)[0].__annotations__)
    assert entry.options == own


def test_a_file_that_two_formats_recognise_is_suggested_once(tmp_path):
    (tmp_path / "data.csv").write_text('filepath,label,split_name\na.jpg,"[sky]",train\n')
    with pytest.raises(DataError, match=r"Did you mean \S*data.csv\? Tagloom"):
        load_table(tmp_path)


def test_a_class_folder_takes_no_options(class_folders):
    with pytest.raises(DataError, match=r"unknown option for class folders 'separator'. Known: none"):
        load_table(class_folders, separator="|")


def test_importing_the_package_loads_nothing_heavy_and_loading_a_table_no_torch():
    code = (
        "import sys, tagloom.data; assert not {'numpy', 'scipy', 'PIL'} & set(sys.modules), 'import is not cheap'; "
        "from tagloom.data import load_table, LabelTable; "
        "assert not {'torch', 'pyarrow', 'sklearn'} & set(sys.modules), 'heavy modules came along'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert LabelTable.__name__ == "LabelTable"
    with pytest.raises(AttributeError, match="nothing"):
        _ = tagloom.data.nothing
