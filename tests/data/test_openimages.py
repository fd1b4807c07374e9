"""Open Images' original files: who labelled what, and that a missing label is unknown."""

from pathlib import Path

import pytest

from tagloom.data import load_table
from tagloom.errors import DataError

HUMAN = """ImageID,Source,LabelName,Confidence
a1,verification,/m/cat,1
a1,verification,/m/dog,0
b2,crowdsource-verification,/m/dog,1
b2,verification,/m/dog,0
b2,verification,/m/rare,1
"""
MACHINE = """ImageID,Source,LabelName,Confidence
a1,machine,/m/dog,0.9
a1,machine,/m/jaguar1,0.7
b2,machine,/m/cat,0.4
c3,machine,/m/cat,0.8
"""
NAMES = (
    'LabelName,DisplayName\n/m/cat,Cat\n/m/dog,"Dog, domestic"\n/m/jaguar1,Jaguar\n/m/jaguar2,Jaguar\n/m/rare,Rare\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "oidv6-train-annotations-human-imagelabels.csv").write_text(HUMAN)
    (tmp_path / "oidv6-train-annotations-machine-imagelabels.csv").write_text(MACHINE)
    (tmp_path / "validation-annotations-human-imagelabels.csv").write_text(HUMAN)
    (tmp_path / "validation-annotations-machine-imagelabels.csv").write_text(MACHINE)
    (tmp_path / "oidv6-class-descriptions.csv").write_text(NAMES)
    (tmp_path / "oidv6-classes-trainable.txt").write_text("/m/jaguar1\n/m/cat\n/m/dog\n/m/jaguar2\n")
    for part in ("train", "validation"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a1.jpg").touch()
    return tmp_path


def pairs(table) -> dict[tuple[str, str], str]:
    """The known pairs of a table."""
    rows = range(len(table))
    targets, known = table.targets(rows), table.known(rows)
    return {
        (image, name): "yes" if targets[row, column] else "no"
        for row, image in enumerate(table.images)
        for column, name in enumerate(table.classes)
        if known[row, column]
    }


def test_training_takes_peoples_labels_and_elsewhere_those_networks_are_sure_of(folder):
    table = load_table(folder / "oidv6-train-annotations-human-imagelabels.csv")
    assert table.classes == ("Jaguar (/m/jaguar1)", "Cat", "Dog, domestic", "Jaguar (/m/jaguar2)")
    assert table.root == folder / "train"
    assert table.unlisted == "unknown"
    assert pairs(table) == {
        ("a1.jpg", "Cat"): "yes",
        ("a1.jpg", "Dog, domestic"): "no",  # people judged it, so the network is ignored
        ("a1.jpg", "Jaguar (/m/jaguar1)"): "yes",
        ("b2.jpg", "Dog, domestic"): "yes",  # one of two people saw it
        ("c3.jpg", "Cat"): "yes",
    }


def test_only_pairs_judged_by_people_are_scored(folder):
    table = load_table(folder / "validation-annotations-human-imagelabels.csv")
    assert table.images == ["a1.jpg", "b2.jpg"]
    assert set(pairs(table)) == {("a1.jpg", "Cat"), ("a1.jpg", "Dog, domestic"), ("b2.jpg", "Dog, domestic")}


def test_the_machine_option_decides_whether_networks_labels_are_read(folder):
    path = folder / "oidv6-train-annotations-human-imagelabels.csv"
    assert ("c3.jpg", "Cat") not in pairs(load_table(path, machine="never"))
    surer = pairs(load_table(path, min_confidence="0.75"))
    assert ("a1.jpg", "Jaguar (/m/jaguar1)") not in surer
    assert ("c3.jpg", "Cat") in surer
    path = folder / "validation-annotations-human-imagelabels.csv"
    assert pairs(load_table(path, machine="always", min_confidence=0.3))["b2.jpg", "Cat"] == "yes"


def test_without_a_list_of_trainable_labels_all_are_read_and_without_names_by_their_code(folder):
    (folder / "oidv6-classes-trainable.txt").unlink()
    (folder / "oidv6-class-descriptions.csv").unlink()
    table = load_table(folder / "validation-annotations-human-imagelabels.csv")
    assert table.classes == ("/m/cat", "/m/dog", "/m/rare")
    assert pairs(table)["b2.jpg", "/m/rare"] == "yes"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a1,verification,/m/cat,0.5\n", "line 2: people's labels are 1 or 0"),
        ("a1,verification,/m/cat,2\n", "line 2: expected an image id, a label and a confidence from 0 to 1"),
        ("a1,verification,/m/cat,nan\n", "line 2: expected an image id, a label and a confidence from 0 to 1"),
        ("a1,/m/cat,1\n", "line 2: expected ImageID, Source, LabelName, Confidence"),
        ("../../a1,verification,/m/cat,1\n", "line 2: expected an image id"),
        ("a1,verification,/m/strange,1\n", "no row has a label that can be trained"),
    ],
)
def test_invalid_rows_are_refused_with_their_line(folder, row, message):
    path = folder / "validation-annotations-human-imagelabels.csv"
    path.write_text("ImageID,Source,LabelName,Confidence\n" + row)
    with pytest.raises(DataError) as caught:
        load_table(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", [{"machine": "sometimes"}, {"min_confidence": "much"}, {"min_confidence": 0}])
def test_options_that_do_not_exist_are_refused(folder, option):
    with pytest.raises(DataError, match="found"):
        load_table(folder / "validation-annotations-human-imagelabels.csv", **option)


def test_missing_images_name_the_option_to_give(folder):
    (folder / "train" / "a1.jpg").unlink()
    with pytest.raises(DataError, match="images=FOLDER"):
        load_table(folder / "oidv6-train-annotations-human-imagelabels.csv")
