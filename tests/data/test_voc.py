import numpy as np
import pytest

from tagloom.data import load_table
from tagloom.data.formats import voc
from tagloom.errors import DataError

OBJECTS = {
    "000001": [("dog", 0), ("person", 1)],
    "000002": [("dog", 1), ("dog", 0)],
    "000003": [("cat", 0)],
}


def annotation(objects):
    body = "".join(
        f"<object><name>{name}</name><difficult>{difficult}</difficult>"
        "<part><name>head</name><difficult>0</difficult></part></object>"
        for name, difficult in objects
    )
    return (
        f'<?xml version="1.0"?><annotation><filename>x.jpg</filename><source><name>s</name></source>{body}</annotation>'
    )


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "VOCdevkit" / "VOC2007"
    for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (root / part).mkdir(parents=True)
    for name, objects in OBJECTS.items():
        (root / "Annotations" / f"{name}.xml").write_text(annotation(objects))
        (root / "JPEGImages" / f"{name}.jpg").touch()
    (root / "ImageSets/Main/trainval.txt").write_text("000001\n000002\n")
    (root / "ImageSets/Main/test.txt").write_text("000003\n")
    return root


def write_class_lists(folder, split="trainval"):
    marks = {"cat": (-1, -1), "dog": (1, 1), "person": (0, -1)}
    for name, (first, second) in marks.items():
        path = folder / "ImageSets/Main" / f"{name}_{split}.txt"
        path.write_text(f"000001 {first:2}\n000002 {second:2}\n")


def without_annotations(folder):
    for file in (folder / "Annotations").iterdir():
        file.unlink()
    (folder / "Annotations").rmdir()


def test_every_annotated_image_is_read_without_a_split(folder):
    table = load_table(folder)
    assert table.classes == ("cat", "dog", "person")
    assert table.images == [f"JPEGImages/{name}.jpg" for name in OBJECTS]
    np.testing.assert_array_equal(table.targets(slice(None)), [[0, 1, 0], [0, 1, 0], [1, 0, 0]])
    assert all(table.path(row).exists() for row in range(3))


@pytest.mark.parametrize(
    ("difficult", "target", "known"), [("unknown", 0, False), ("positive", 1, True), ("negative", 0, True)]
)
@pytest.mark.parametrize("from_lists", [False, True])
def test_difficult_objects_are_what_is_chosen_in_xml_and_in_lists(folder, difficult, target, known, from_lists):
    write_class_lists(folder)
    if from_lists:
        without_annotations(folder)
    table = load_table(folder, split="trainval", difficult=difficult)
    person = table.classes.index("person")
    assert (table.targets([0])[0, person], table.known([0])[0, person]) == (target, known)
    np.testing.assert_array_equal(table.targets([0, 1])[:, :2], [[0, 1], [0, 1]])
    assert table.known([0, 1])[:, :2].all()


def test_difficult_is_unknown_unless_chosen(folder):
    assert not load_table(folder).known([0])[0, 2]


@pytest.mark.parametrize("from_lists", [False, True])
def test_a_split_keeps_every_class_of_the_lists(folder, from_lists):
    write_class_lists(folder)
    if from_lists:
        without_annotations(folder)
    table = load_table(folder, split="trainval")
    assert table.images == ["JPEGImages/000001.jpg", "JPEGImages/000002.jpg"]
    assert table.classes == ("cat", "dog", "person")


def test_the_list_of_a_split_and_the_devkit_lead_to_the_folder(folder):
    by_list = load_table(folder / "ImageSets/Main/test.txt")
    assert by_list.images == ["JPEGImages/000003.jpg"]
    assert load_table(folder.parent, split="test").images == by_list.images
    assert load_table(folder.parent.parent, split="test").images == by_list.images


def test_another_split_whose_name_ends_the_same_is_not_a_class(folder):
    (folder / "ImageSets/Main/my_trainval.txt").write_text("000001\n")
    assert "my" not in load_table(folder, split="trainval").classes


def test_other_suffixes_are_found_and_absent_images_stay_listed(folder):
    (folder / "JPEGImages/000001.jpg").rename(folder / "JPEGImages/000001.PNG")
    (folder / "JPEGImages/000002.jpg").unlink()
    assert load_table(folder).images[:2] == ["JPEGImages/000001.PNG", "JPEGImages/000002.jpg"]


def test_classes_can_be_reordered(folder):
    assert load_table(folder, classes=["person", "dog", "cat"]).targets([2]).tolist() == [[0, 0, 1]]


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;">]>'
    "<annotation><object><name>&y;</name></object></annotation>"
)
OUTSIDE = (
    '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation><object><name>&x;</name></object></annotation>'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "document type or entities"),
        (OUTSIDE, "document type or entities"),
        ('<!DOCTYPE a SYSTEM "http://example.com/a.dtd"><annotation/>', "document type"),
        ("<annotation><object>", "not well-formed"),
        ("<annotation><object><name>&undefined;</name></object></annotation>", "not well-formed"),
        ('<?xml version="1.0" encoding="nonsense"?><annotation/>', "not well-formed"),
        ("", "not well-formed"),
        ("<annotation>\n<object><name> </name></object></annotation>", "line 2: an object has no name"),
    ],
)
def test_hostile_and_broken_xml_is_refused(folder, text, message):
    file = folder / "Annotations/000001.xml"
    file.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        load_table(folder)
    assert str(file) in str(caught.value)


def test_an_annotation_beyond_the_cap_is_refused(folder, monkeypatch):
    monkeypatch.setattr(voc, "MAX_XML_BYTES", 100)
    with pytest.raises(DataError, match="larger than 100 bytes"):
        load_table(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "valid"}, "there is no split 'valid'. Splits found: test, trainval"),
        ({"split": "../Main/test"}, "there is no split"),
        ({"difficult": "maybe"}, "found 'maybe'"),
    ],
)
def test_options_that_cannot_work_are_refused(folder, options, message):
    with pytest.raises(DataError, match=message):
        load_table(folder, **options)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("000001\n000009\n", "000009.xml: cannot be read"),
        ("../../secret\n", "is not an image id"),
        ("000001\n000001\n", "'000001' is listed twice"),
        ("\n", "no image ids"),
    ],
)
def test_a_bad_list_of_a_split_is_refused(folder, ids, message):
    (folder / "ImageSets/Main/trainval.txt").write_text(ids)
    with pytest.raises(DataError, match=message):
        load_table(folder, split="trainval")


def test_a_bad_class_list_is_refused_with_its_entry(folder):
    write_class_lists(folder)
    without_annotations(folder)
    (folder / "ImageSets/Main/dog_trainval.txt").write_text("000001 1\n000002 2\n")
    with pytest.raises(DataError, match=r"dog_trainval.txt, entry 2: expected .*, found '000002 2'"):
        load_table(folder, split="trainval")


def test_a_folder_without_labels_says_so(folder):
    without_annotations(folder)
    with pytest.raises(DataError, match="Choose one with split=NAME"):
        load_table(folder)
    with pytest.raises(DataError, match="must contain the labels"):
        load_table(folder, split="trainval")


def test_several_editions_are_ambiguous(folder):
    for part in ("JPEGImages", "Annotations"):
        (folder.parent / "VOC2012" / part).mkdir(parents=True)
    with pytest.raises(DataError, match="several VOC folders"):
        load_table(folder.parent)


def test_annotations_without_objects_give_no_class(folder):
    for name in OBJECTS:
        (folder / "Annotations" / f"{name}.xml").write_text("<annotation/>")
    with pytest.raises(DataError, match="no class to learn"):
        load_table(folder)


def test_a_list_and_another_split_contradict_each_other(folder):
    with pytest.raises(DataError, match="Give one of them"):
        load_table(folder / "ImageSets/Main/test.txt", split="trainval")
