"""NUS-WIDE's original lists: the splits, the images without a concept, and files that do not fit together."""

from pathlib import Path

import pytest

from tagloom.data import load_table
from tagloom.errors import DataError

IMAGES = {"Train": ["actor\\1.jpg", "sky\\2.jpg", "sea\\3.jpg"], "Test": ["sea\\4.jpg", "sea\\5.jpg"]}
MARKS = {"sky": {"Train": "110", "Test": "01"}, "water": {"Train": "010", "Test": "01"}}


@pytest.fixture
def nus(tmp_path: Path) -> Path:
    root = tmp_path / "NUS-WIDE"
    lists, truth = root / "ImageList", root / "Groundtruth"
    for folder in (lists, truth / "TrainTestLabels", truth / "AllLabels", root / "Flickr" / "sky"):
        folder.mkdir(parents=True)
    for part, names in IMAGES.items():
        (lists / f"{part}Imagelist.txt").write_text("\r\n".join(names) + "\r\n")
        for concept, marks in MARKS.items():
            text = "\n".join(marks[part]) + "\n"
            (truth / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(text)
    (lists / "Imagelist.txt").write_text("\n".join(IMAGES["Test"] + IMAGES["Train"]) + "\n")
    for concept, marks in MARKS.items():
        (truth / "AllLabels" / f"Labels_{concept}.txt").write_text("\n".join(marks["Test"] + marks["Train"]) + "\n")
    (root / "Flickr" / "sky" / "2.jpg").touch()
    return root


def test_images_without_a_concept_are_dropped_as_in_papers(nus):
    table = load_table(f"{nus}#train")
    assert table.classes == ("sky", "water")
    assert table.images == ["actor/1.jpg", "sky/2.jpg"]
    assert table.targets(slice(None)).tolist() == [[1, 0], [1, 1]]
    assert table.root == nus / "Flickr"
    assert table.known(slice(None)).all()


def test_images_without_a_concept_are_kept_on_request(nus):
    table = load_table(nus, split="test", unannotated="keep", images=nus / "Flickr")
    assert table.images == ["sea/4.jpg", "sea/5.jpg"]
    assert table.targets(slice(None)).tolist() == [[0, 0], [1, 1]]


def test_without_a_split_all_labels_are_read(nus):
    assert load_table(nus).images == ["sea/5.jpg", "actor/1.jpg", "sky/2.jpg"]


def test_classes_may_be_put_in_another_order(nus):
    assert load_table(nus, split="train", classes=["water", "sky"]).targets([0]).tolist() == [[0, 1]]


def test_lists_one_folder_deeper_are_found(nus):
    (nus / "ImageList").rename(nus / "lists")
    (nus / "ImageList").mkdir()
    (nus / "lists").rename(nus / "ImageList" / "ImageList")
    assert len(load_table(nus, split="train")) == 2


def labels(nus: Path) -> Path:
    return nus / "Groundtruth" / "TrainTestLabels" / "Labels_sky_Train.txt"


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda nus: labels(nus).write_text("1\n0\n"), "2 labels for the 3 images"),
        (lambda nus: labels(nus).write_text("1\n0\n1\n1\n"), "more than 3 labels for the 3 images"),
        (lambda nus: labels(nus).write_text("1\nyes\n1\n"), "line 2: expected 0 or 1, found 'yes'"),
        (
            lambda nus: (nus / "ImageList/TrainImagelist.txt").write_text("a.jpg\na.jpg\nb.jpg\n"),
            "is listed twice",
        ),
        (lambda nus: (nus / "ImageList/TrainImagelist.txt").write_text("a.jpg\nb\0.jpg\nc.jpg\n"), "line 2"),
        (lambda nus: (nus / "ImageList/TrainImagelist.txt").unlink(), "needs TrainImagelist.txt"),
        (lambda nus: (nus / "Flickr/sky/2.jpg").unlink(), "images=FOLDER"),
    ],
)
def test_files_that_do_not_fit_are_refused_with_their_line(nus, harm, message):
    harm(nus)
    with pytest.raises(DataError) as caught:
        load_table(nus, split="train")
    assert message in str(caught.value)


@pytest.mark.parametrize("option", [{"split": "val"}, {"unannotated": "maybe"}])
def test_options_that_do_not_exist_are_refused(nus, option):
    with pytest.raises(DataError, match=r"found '(val|maybe)'"):
        load_table(nus, **option)
