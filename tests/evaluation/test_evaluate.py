"""Evaluation is metrics.score on the tagger's scores, over the images that could be read."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import tagloom
from tagloom.data import load_table
from tagloom.errors import DataError, TagloomError
from tagloom.evaluation.evaluate import Evaluation, evaluate, evaluate_split
from tagloom.labels.split import LabelSplit
from tagloom.metrics import score, zero_shot_score
from tagloom.predict.tagger import Tagger, load
from tagloom.recipe.pictures import Preprocess
from tagloom.scoring.calibration import Calibration
from tagloom.tagger.spec import TaggerSpec


@pytest.fixture(scope="module")
def tagger(finished_run) -> Tagger:
    return load(finished_run)


@pytest.fixture
def photos(scenes, tmp_path) -> Path:
    return Path(shutil.copytree(scenes, tmp_path / "photos"))


def assert_same(ours, theirs) -> None:
    head, middle, tail = ours["long_tail"]  # of the scenes' classes, all were learned from fewer than 20 images
    assert (head["classes"], middle["classes"], tail["mAP"]) == (0, 0, pytest.approx(theirs["mAP"]))
    names = set(ours) - {"long_tail"}
    assert names == set(theirs) - {"long_tail"}
    for name in names:
        assert ours[name] == pytest.approx(theirs[name]), name


@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize("top_k", [3, 5])
def test_evaluation_is_the_score_of_the_scores(tagger, scenes, threshold, top_k):
    table = load_table(scenes / "val.csv").with_classes(tagger.classes)
    scores = tagger.scores([table.path(row) for row in range(len(table))])
    limit = tagger.spec.threshold_row() if threshold is None else threshold
    result = evaluate(tagger, table, threshold=threshold, top_k=top_k)
    assert_same(result.metrics, score(scores, table.targets(slice(None)), threshold=limit, top_k=top_k))
    np.testing.assert_array_equal(result.scores, scores)
    np.testing.assert_array_equal(result.rows, np.arange(16))
    assert result.broken == []


def test_training_reported_what_evaluation_finds(tagger, scenes):
    result = evaluate(tagger, load_table(scenes / "val.csv"))
    told = tagger.spec.metrics["validation"]
    assert result.metrics["mAP"] == pytest.approx(told["mAP"], abs=0.1)
    assert result.metrics["CF1"] == pytest.approx(told["CF1"], abs=1.0)


def test_classes_in_another_order_score_the_same(tagger, scenes):
    table = load_table(scenes / "val.csv")
    shuffled = table.with_classes(tuple(reversed(tagger.classes)))
    assert_same(evaluate(tagger, shuffled).metrics, evaluate(tagger, table).metrics)


def test_a_class_the_tagger_does_not_know_is_refused(tagger, photos):
    (photos / "classes.txt").unlink()
    (photos / "val.csv").write_text("image,labels\nimages/val_000000.jpg,zebra\n")
    with pytest.raises(DataError, match="'zebra' is not one of the 24 classes"):
        evaluate(tagger, load_table(photos / "val.csv"))


def test_unreadable_images_are_listed_and_not_counted(tagger, photos):
    (photos / "images" / "val_000003.jpg").write_bytes(b"no picture")
    table = load_table(photos / "val.csv")
    result = evaluate(tagger, table, max_broken=0.1)
    assert [Path(error.path).name for error in result.broken] == ["val_000003.jpg"]
    assert result.metrics["images"] == 15
    rest = table.select([row for row in range(16) if row != 3])
    assert_same(result.metrics, evaluate(tagger, rest).metrics)


def test_too_many_unreadable_images_are_an_error(tagger, photos):
    for number in range(3):
        (photos / "images" / f"val_00000{number}.jpg").unlink()
    with pytest.raises(DataError, match="3 of 16 images cannot be read"):
        evaluate(tagger, load_table(photos / "val.csv"))


def test_no_readable_image_is_an_error_whatever_is_allowed(tagger, photos):
    shutil.rmtree(photos / "images")
    with pytest.raises(DataError, match="16 of 16 images cannot be read"):
        evaluate(tagger, load_table(photos / "val.csv"), max_broken=1.0)


def test_unknown_labels_count_nowhere(tagger, photos):
    table = load_table(photos / "val.csv").with_classes(tagger.classes)
    lines = [",".join(["image", *table.classes])]
    for row in range(len(table)):
        marks = ["" if place < 6 and row % 2 else str(mark) for place, mark in enumerate(table.targets([row])[0])]
        lines.append(",".join([table.images[row], *marks]))
    (photos / "val.csv").write_text("\n".join(lines))
    partly = load_table(photos / "val.csv")
    known = partly.known(slice(None))
    assert not known.all()
    scores = tagger.scores([partly.path(row) for row in range(len(partly))])
    wanted = score(scores, partly.targets(slice(None)), known, threshold=tagger.spec.threshold_row())
    assert_same(evaluate(tagger, partly).metrics, wanted)
    assert wanted["mAP"] != pytest.approx(evaluate(tagger, table).metrics["mAP"])


def test_progress_counts_every_image(tagger, scenes):
    told = []
    evaluate(tagger, load_table(scenes / "val.csv"), progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 16) for done in range(1, 17)]


def test_a_single_label_tagger_also_gets_its_accuracy(scenes):
    table = load_table(scenes / "val.csv")
    truth = table.targets(slice(None)).argmax(1)
    one_hot = np.eye(len(table.classes), dtype=bool)[truth]
    answers = truth.copy()
    answers[:4] = (truth[:4] + 1) % len(table.classes)  # four of sixteen are wrong
    logits = iter(5 * np.eye(len(table.classes), dtype=np.float32)[answers])
    spec = TaggerSpec(table.classes, Preprocess(size=32), "x", "gap", task="single")
    tagger = Tagger(spec, lambda pictures: np.stack([next(logits) for _ in pictures]), "onnx")
    result = evaluate(tagger, dataclasses.replace(table, positive=csr_array(one_hot)))
    assert result.metrics["top1"] == pytest.approx(75)


def test_a_split_is_ranked_as_before_calibration(scenes):
    table = load_table(scenes / "val.csv")
    truth, classes = table.targets(slice(None)), table.classes
    offsets = tuple(40.0 * (1 - column % 2) for column in range(len(classes)))  # every other label above all others
    calibration = Calibration(scales=(1.0,) * len(classes), offsets=offsets)
    split = LabelSplit(classes[:20], classes[20:])

    def measured(calibration: Calibration | None) -> dict:
        logits = iter(10 * truth.astype(np.float32) - 5)
        spec = TaggerSpec(classes, Preprocess(size=32), "x", "gap", calibration=calibration)
        tagger = Tagger(spec, lambda pictures: np.stack([next(logits) for _ in pictures]), "onnx")
        return evaluate_split(tagger, table, split).metrics

    assert measured(calibration) == measured(None)


def test_labels_that_the_tagger_does_not_know_are_refused_or_left_out(finished_run, scenes, tmp_path):
    lines = (scenes / "test.csv").read_text().splitlines()
    rows = [line if line.startswith("image,") else f"{scenes}/{line}|zeppelin" for line in lines]
    (tmp_path / "test.csv").write_text("\n".join(rows))
    tagger, table = load(finished_run), load_table(tmp_path / "test.csv")
    with pytest.raises(DataError, match="zeppelin"):
        evaluate(tagger, table)
    expected = evaluate(tagger, load_table(scenes / "test.csv")).metrics
    assert evaluate(tagger, table, ignore_other_labels=True).metrics == expected


def test_a_split_can_be_scored_on_images_with_an_unseen_label_alone(scenes):
    table = load_table(scenes / "val.csv")
    truth, classes = table.targets(slice(None)), table.classes
    split = LabelSplit(classes[:20], classes[20:])
    kept = np.flatnonzero(truth[:, 20:].any(axis=1))
    assert 0 < len(kept) < len(table)
    given = np.random.default_rng(0).normal(size=truth.shape).astype(np.float32)
    of_row = {table.path(row): given[row] for row in range(len(table))}

    def measured(images: str) -> Evaluation:
        rows = kept if images == "with-unseen" else np.arange(len(table))
        logits = iter([of_row[table.path(row)] for row in rows])
        spec = TaggerSpec(classes, Preprocess(size=32), "x", "gap")
        tagger = Tagger(spec, lambda pictures: np.stack([next(logits) for _ in pictures]), "onnx")
        return evaluate_split(tagger, table, split, score_images=images)

    some, every = measured("with-unseen"), measured("all")
    assert len(some.rows) == len(kept)
    wanted = zero_shot_score(1 / (1 + np.exp(-given[kept])), truth[kept], range(20, len(classes)))
    assert some.metrics["ZSL"]["mAP"] == pytest.approx(wanted["ZSL"]["mAP"])
    assert some.metrics["ZSL"]["mAP"] > every.metrics["ZSL"]["mAP"], (
        "images without an unseen label only cost precision"
    )


def test_images_cannot_be_chosen_by_unseen_labels_without_a_split(finished_run, scenes):
    with pytest.raises(TagloomError, match="name these with split"):
        tagloom.evaluate(finished_run, scenes / "val.csv", score_images="with-unseen")
    with pytest.raises(TagloomError, match="did you mean 'with-unseen'"):
        tagloom.evaluate(finished_run, scenes / "val.csv", split="random:3", score_images="with-unsen")
