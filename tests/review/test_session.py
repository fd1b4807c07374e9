"""A review from table to export, with the labels of a table or of keywords."""

import csv
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_array

from tagloom.data import load_table
from tagloom.data.photo_keywords import read_photo_keywords
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, MissingExtraError
from tagloom.predict.keywords import write_keywords as write_tags
from tagloom.review.export import write_corrections, write_keywords, write_labels
from tagloom.review.learning import Pooled, standardised
from tagloom.review.opening import open_session
from tagloom.review.session import Session

CLASSES = ("cat", "dog", "sofa")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve photos, the even ones red."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(12):
        colour = (200, 10 * number, 0) if number % 2 == 0 else (0, 10 * number, 200)
        Image.new("RGB", (24, 16), colour).save(photos / f"{number:02}.jpg")
    return photos


def colours(images: list[Path], progress: object) -> Pooled:
    """Features without a network: the middle pixel."""
    pixels = [np.asarray(Image.open(image))[8, 12] for image in images]
    return Pooled(np.arange(len(images)), standardised(np.array(pixels, np.float32)))


def session_of(folder: Path, out: Path, table: LabelTable | None = None, **options: object) -> Session:
    names = sorted(photo.name for photo in folder.glob("*.jpg"))
    empty = csr_array((len(names), len(CLASSES)), dtype=np.bool_)
    table = table or LabelTable(folder, names, CLASSES, empty, unlisted="unknown")
    scores = np.full((len(table), len(table.classes)), 0.3, np.float32)
    limits = np.full(len(table.classes), 0.5, np.float32)
    return Session(out, table, scores, limits, options.pop("features", colours), **options)


def test_what_was_learned_is_suggested_and_unanswered_photos_stay_unknown(folder: Path, tmp_path: Path) -> None:
    session = session_of(folder, tmp_path / "out")
    for row in range(8):
        session.answer(row, ["dog"] if row % 2 == 0 else [])
    learned = session.retrain()
    assert (learned.answers, learned.changed) == (8, 6)
    for row in range(8, 12):
        suggested = [shown.label for shown in session.labels_of(row) if shown.on]
        assert suggested == (["dog"] if row % 2 == 0 else [])
    assert sorted(session.waiting(20)) == [8, 9, 10, 11]
    assert session.known().known.all(1).tolist() == [True] * 8 + [False] * 4


def test_what_was_learned_comes_back_by_itself_after_a_restart(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from tagloom.serve.reviewing import create_review_app

    def suggested(session: Session) -> list[str]:
        return [shown.label for shown in session.labels_of(8) if shown.on]

    session = session_of(folder, tmp_path / "out")
    for row in range(8):
        session.answer(row, ["dog"] if row % 2 == 0 else [])
    never_learned = session_of(folder, tmp_path / "out")
    create_review_app(never_learned)
    session.retrain()
    again = session_of(folder, tmp_path / "out")
    assert suggested(again) == []
    create_review_app(again)
    until = time.monotonic() + 20
    while suggested(again) != ["dog"] and time.monotonic() < until:
        time.sleep(0.01)
    assert suggested(again) == suggested(session) == ["dog"]
    assert suggested(never_learned) == [], "who never asked for it is not made to wait"


def test_a_session_continues_from_its_file(folder: Path, tmp_path: Path) -> None:
    session = session_of(folder, tmp_path / "out")
    session.answer(3, ["cat"], ["sofa"])
    session.add_label("Sunset")
    session.answer(4, ["Sunset"])
    again = session_of(folder, tmp_path / "out")
    assert again.classes == (*CLASSES, "Sunset")
    known = again.known()
    assert known.known[3].tolist() == [True, True, False, False], "it says nothing about a label that came later"
    assert known.targets[4].tolist() == [False, False, False, True]
    assert again.undo() == 4
    assert again.waiting(1) == [4]
    with pytest.raises(DataError, match="other photos"):
        session_of(folder, tmp_path / "out", LabelTable(folder, ["x.jpg"], ("cat",), csr_array((1, 1), dtype=np.bool_)))


def test_a_label_is_added_once_whatever_its_case(folder: Path, tmp_path: Path) -> None:
    session = session_of(folder, tmp_path / "out")
    assert [session.add_label(name) for name in ("Sun  set", "sun set", "DOG")] == ["Sun set", "Sun set", "dog"]
    for wrong in ("", " ", "a" * 201, "a\x00b"):
        with pytest.raises(DataError, match="characters"):
            session.add_label(wrong)
    with pytest.raises(DataError, match="not a label of this review"):
        session.answer(0, ["horse"])


def test_photos_with_doubtful_labels_or_named_ones_come_first_and_later_ones_last(folder: Path, tmp_path: Path) -> None:
    session = session_of(folder, tmp_path / "out", first=[7, 2])
    assert session.waiting(2) == [7, 2]
    session.skip(7)
    assert session.waiting(1) == [2]
    assert session.waiting(20)[-1] == 7


def test_exports_are_a_table_with_unknowns_and_the_corrections(folder: Path, tmp_path: Path) -> None:
    labels = np.zeros((12, 3), bool)
    labels[:, 0] = True
    names = [f"{number:02}.jpg" for number in range(12)]
    session = session_of(folder, tmp_path / "out", LabelTable(folder, names, CLASSES, csr_array(labels)))
    session.answer(0, ["dog"])
    session.answer(1, ["cat"], ["sofa"])
    table = load_table(write_labels(session))
    assert table.path(0).resolve() == (folder / "00.jpg").resolve()
    assert table.targets([0, 2])[:, :2].tolist() == [[0, 1], [1, 0]]
    assert table.known([0, 1]).tolist() == [[True] * 3, [True, True, False]]
    with write_corrections(session).open(newline="") as file:
        rows = [(Path(row["image"]).name, row["label"], row["was"], row["now"]) for row in csv.DictReader(file)]
    assert rows == [("00.jpg", "cat", "1", "0"), ("00.jpg", "dog", "0", "1")]


def test_keywords_are_written_as_the_owners_and_the_photo_is_reviewed(folder: Path, tmp_path: Path) -> None:
    tree = {"dog": "animal"}
    classes = ("animal", "dog", "sofa")
    names = [f"{number:02}.jpg" for number in range(12)]
    empty = csr_array((12, 3), dtype=np.bool_)
    table = LabelTable(folder, names, classes, empty, unlisted="unknown", parents=tree)
    session = session_of(folder, tmp_path / "out", table)
    session.answer(0, ["dog"])
    session.answer(1, ["sofa"], ["animal"])
    session.answer(2, [], ["sofa"])
    assert [result.outcome for result in write_keywords(session)] == ["written", "written", "unchanged"]
    assert not (folder / "02.jpg.xmp").exists(), "there is nothing to say about it"
    first, second = (read_photo_keywords(folder / name).keywords for name in names[:2])
    assert (first.own, first.ours, first.reviewed) == (("animal|dog",), (), True)
    assert (second.own, second.reviewed) == (("sofa",), False), "somebody was unsure of the rest"
    assert [result.outcome for result in write_keywords(session)] == ["unchanged"] * 3
    read = load_table(folder, min_count="1")
    assert read.known([0]).all()
    assert not read.known([2]).any()


def test_a_reviewed_photo_loses_the_tags_that_do_not_apply(folder: Path, tmp_path: Path, untrained_run: Path) -> None:
    from tagloom.predict.tagger import load

    tagger, photo = load(untrained_run), folder / "00.jpg"
    list(write_tags(tagger, [photo], max_tags=3))
    wrong, *right = read_photo_keywords(photo).keywords.ours
    session, errors = open_session(tagger, [folder], tmp_path / "out", cache_folder=tmp_path)
    assert (errors, session.classes[: len(tagger.classes)]) == ([], tagger.classes)
    session.answer(session.table.images.index("00.jpg"), right)
    list(write_keywords(session))
    found = read_photo_keywords(photo).keywords
    assert (set(found.own), found.ours, found.rejected) == (set(right), (), (wrong,))


def test_an_image_that_cannot_be_read_is_left_out_and_scores_are_kept(
    folder: Path, tmp_path: Path, untrained_run: Path
) -> None:
    from tagloom.predict.tagger import load

    (folder / "broken.jpg").write_bytes(b"nothing")
    tagger, done = load(untrained_run), []
    for _ in range(2):
        session, errors = open_session(
            tagger, [folder], tmp_path, cache_folder=tmp_path, progress=lambda now, total: done.append(total)
        )
        assert (len(session.table), len(errors)) == (12, 1)
    assert set(done[:13]) == {13}
    assert done[13:] == [1], "only the one that could not be read is tried again"
    assert np.allclose(session.scores, tagger.scores([session.table.path(row) for row in range(12)]), atol=1e-6)


def test_doubts_are_asked_first(folder: Path, tmp_path: Path, untrained_run: Path) -> None:
    from tagloom.predict.tagger import load

    doubts = tmp_path / "doubts.csv"
    doubts.write_text("image,label\nphotos/05.jpg,cat\nphotos/01.jpg,dog\nphotos/05.jpg,dog\n")
    tagger = load(untrained_run)
    session, _ = open_session(tagger, [folder], tmp_path / "out", cache_folder=tmp_path, doubts=doubts)
    assert [session.table.images[row] for row in session.waiting(2)] == ["05.jpg", "01.jpg"]
    doubts.write_text("image\nelsewhere.jpg\n")
    with pytest.raises(DataError, match="names no image"):
        open_session(tagger, [folder], tmp_path / "out", cache_folder=tmp_path, doubts=doubts)


def test_retraining_says_what_it_lacks(folder: Path, tmp_path: Path) -> None:
    def missing(images: object, progress: object) -> Pooled:
        raise MissingExtraError("learning from answers", "train")

    session = session_of(folder, tmp_path / "out", features=missing)
    with pytest.raises(DataError, match="too little to learn from: 0 of the first 5"):
        session.retrain()
    for row in range(5):
        session.answer(row, [])
    with pytest.raises(MissingExtraError, match=r"tagloom\[train\]"):
        session.retrain()
