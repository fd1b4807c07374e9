import json

import numpy as np
import pytest

from tagloom.data import load_table
from tagloom.data.formats import coco
from tagloom.errors import DataError

CONTENT = {
    "images": [
        {"id": 30, "file_name": "c.jpg"},
        {"id": 10, "file_name": "a.jpg"},
        {"id": 20, "file_name": "b.jpg"},
    ],
    "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}, {"id": 18, "name": "dog"}],
    "annotations": [
        {"image_id": 10, "category_id": 18, "iscrowd": 0},
        {"image_id": 10, "category_id": 18, "iscrowd": 0},
        {"image_id": 10, "category_id": 1, "iscrowd": 1},
        {"image_id": 20, "category_id": 90, "iscrowd": 0},
    ],
}


def write(folder, name="annotations/instances_train2014.json", **changes):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**CONTENT, **changes}))
    return path


def test_objects_become_labels_in_the_order_of_category_ids(tmp_path):
    table = load_table(write(tmp_path), images=tmp_path)
    assert table.classes == ("person", "dog", "toothbrush")
    assert table.images == ["a.jpg", "b.jpg"]
    np.testing.assert_array_equal(table.targets(slice(None)), [[1, 1, 0], [0, 0, 1]])
    assert table.known(slice(None)).all()


def test_images_without_annotations_are_kept_on_request(tmp_path):
    table = load_table(write(tmp_path), images=tmp_path, unannotated="keep")
    assert table.images == ["c.jpg", "a.jpg", "b.jpg"]
    assert table.targets([0]).sum() == 0


@pytest.mark.parametrize("name", ["train2014", "val2017"])
@pytest.mark.parametrize("folder_name", ["{split}", "images/{split}", "images", "annotations", "annotations/{split}"])
def test_images_are_found_in_the_usual_folders(tmp_path, name, folder_name):
    folder = tmp_path / folder_name.format(split=name)
    path = write(tmp_path, f"annotations/instances_{name}.json")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "b.jpg").touch()
    table = load_table(path)
    assert table.path(1).resolve() == (folder / "b.jpg").resolve()


def test_classes_can_be_reordered_and_widened(tmp_path):
    table = load_table(write(tmp_path), images=tmp_path, classes=["dog", "bird", "person", "toothbrush"])
    np.testing.assert_array_equal(table.targets([0]), [[1, 0, 1, 0]])
    with pytest.raises(DataError, match="'toothbrush' is not one of the 2 classes"):
        load_table(write(tmp_path), images=tmp_path, classes=["dog", "person"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": None}, "no list called 'images'"),
        ({"annotations": {}}, "no list called 'annotations'"),
        ({"categories": [{"id": 1}]}, r"categories\[0\]: 'name' is missing"),
        ({"images": ["a.jpg"]}, r"images\[0\]: 'id' is missing"),
        ({"images": [{"id": 1, "file_name": 3}]}, r"images\[0\]: 'file_name' is missing or not of type str"),
        ({"annotations": [{"image_id": 99, "category_id": 1}]}, r"annotations\[0\]: image 99 or category 1 is not"),
        ({"annotations": [{"image_id": 10, "category_id": 2}]}, r"category 2 is not"),
        ({"categories": CONTENT["categories"] * 2}, "two categories have the same id"),
        (
            {"categories": [{"id": 1, "name": "x"}, {"id": 18, "name": "x"}, {"id": 90, "name": "y"}]},
            "twice: 'x'",
        ),
        ({"images": CONTENT["images"] + [{"id": 40, "file_name": "b.jpg"}]}, "'b.jpg' is listed twice"),
        ({"images": [{"id": 10, "file_name": "a\0"}, *CONTENT["images"][::2]]}, "image 10: .* is not a path"),
        ({"annotations": []}, "unannotated='keep'"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_with_its_entry(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        load_table(write(tmp_path, **changes), images=tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[1]", '"text"', "\xff", '{"images": 1' + "0" * 5000 + "}"])
def test_a_file_that_is_not_coco_is_refused(tmp_path, text):
    path = tmp_path / "labels.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=str(path)):
        load_table(path)


def test_missing_images_and_wrong_options_are_named(tmp_path):
    with pytest.raises(DataError, match=r"are in none of .*images=FOLDER"):
        load_table(write(tmp_path))
    with pytest.raises(DataError, match="'keep' or 'drop'"):
        load_table(write(tmp_path), images=tmp_path, unannotated="yes")


def test_a_file_beyond_the_cap_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(coco, "MAX_JSON_BYTES", 10)
    with pytest.raises(DataError, match="larger than 10 bytes"):
        load_table(write(tmp_path), images=tmp_path)
