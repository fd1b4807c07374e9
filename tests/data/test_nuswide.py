"""NUS-WIDE's data.csv: a path, a list of labels and a split in every row."""

import pytest

from tagloom.data import load_table
from tagloom.errors import DataError
from tagloom.labels.split import read_split

ROWS = """filepath,label,split_name
images/1.jpg,"[sky, water]",train
images/2.jpg,"['water', 'toy car']",train
images/3.jpg,[],val
images/4.jpg,[zebra],val
"""


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(ROWS)
    return path


def test_each_split_has_the_labels_of_all(data):
    train, val = load_table(data, split="train"), load_table(data, split="val")
    assert train.classes == val.classes == ("sky", "toy car", "water", "zebra")
    assert train.images == ["images/1.jpg", "images/2.jpg"]
    assert train.targets([0, 1]).tolist() == [[1, 0, 1, 0], [0, 1, 1, 0]]
    assert val.targets([0, 1]).tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    assert val.path(0) == data.parent / "images/3.jpg"
    assert val.known([0, 1]).all()


def test_a_split_can_be_named_after_the_path(data):
    assert load_table(f"{data}#val").images == load_table(data, split="val").images
    assert len(load_table(data)) == 4


def test_images_may_be_elsewhere(data, tmp_path):
    assert load_table(data, images=str(tmp_path / "flickr")).path(0) == tmp_path / "flickr" / "images/1.jpg"


def test_the_81_labels_are_its_unseen_ones(data, tmp_path):
    (tmp_path / "benchmark_81_v0.json").write_text('{"test class": ["zebra"]}')
    split = read_split(str(tmp_path / "benchmark_81_v0.json"), load_table(data).classes)
    assert split == (("sky", "toy car", "water"), ("zebra",))


def test_an_order_of_classes_is_kept(data):
    assert load_table(data, classes=["zebra", "water", "sky", "toy car"]).targets([0]).tolist() == [[0, 1, 1, 0]]
    with pytest.raises(DataError, match="toy car"):
        load_table(data, classes=["zebra", "water", "sky"])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("images/5.jpg,[sky]", "line 6: expected a path, a list"),
        ("images/5.jpg,sky,train", "line 6: expected a path, a list"),
        (",[sky],train", "line 6: no image path"),
        ("images/1.jpg,[zebra],train", "listed twice"),
        ('images/5.jpg,"[sky,train', "not CSV"),
    ],
)
def test_rows_that_do_not_fit_say_where(data, row, says):
    data.write_text(ROWS + row + "\n")
    with pytest.raises(DataError, match=says):
        load_table(data)


def test_a_missing_split_lists_those_that_exist(data):
    with pytest.raises(DataError, match=r"'test'.*'train' \(2\), 'val' \(2\)"):
        load_table(data, split="test")


def test_other_tables_of_three_columns_are_read_as_before(tmp_path):
    (tmp_path / "a.csv").write_text("image,labels,note\n1.jpg,sky|water,train\n")
    (tmp_path / "b.csv").write_text("image,sky,water\n1.jpg,1,0\n")
    assert load_table(tmp_path / "a.csv").classes == ("sky", "water")
    assert load_table(tmp_path / "b.csv").targets([0]).tolist() == [[1, 0]]
