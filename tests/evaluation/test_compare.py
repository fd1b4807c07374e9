"""Two taggers on the same images: changes per label, and how certain they are."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score

from tagloom.data import load_table
from tagloom.errors import DataError
from tagloom.evaluation.compare import (
    Change,
    Comparison,
    compare_scores,
    compare_taggers,
    shared_classes,
)
from tagloom.evaluation.label_pairs import cross_label_gaps
from tagloom.predict.tagger import Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.report.comparison import comparison_to_dict
from tagloom.tagger.spec import TaggerSpec

IMAGES = 24
CLASSES = ("ant", "bee", "cat", "dog")


def comparison_of(differences: list[float]) -> Comparison:
    labels = [Change(f"label-{number}", 20, 50.0, 50.0 + gain) for number, gain in enumerate(differences)]
    labels.sort(key=lambda change: -change.difference)
    return Comparison(10, Change("mAP", 20, 50.0, 50.0), tuple(labels))


def noisy_scores(labels: int, images: int = 300, share: float = 0.2, gain: float = 0.0):
    """The truth, and two taggers that see it through noise of their own; the second one sees it `gain` clearer."""
    rng = np.random.default_rng(1)
    targets = (rng.random((images, labels)) < share).astype(np.uint8)
    seen = targets + 0.5 * rng.normal(size=targets.shape)
    first, second = seen + 0.4 * rng.normal(size=(2, *targets.shape))
    return first, second + gain * targets, targets


def test_every_label_has_the_average_precision_that_scikit_learn_gives():
    first, second, targets = noisy_scores(5)
    result = compare_scores(first, second, targets, classes="abcde", resamples=0)
    assert {change.name for change in result.labels} == set("abcde")
    for change in result.labels:
        column = "abcde".index(change.name)
        truth = targets[:, column]
        assert change.positives == truth.sum()
        assert change.first == pytest.approx(100 * average_precision_score(truth, first[:, column]))
        assert change.second == pytest.approx(100 * average_precision_score(truth, second[:, column]))
        assert change.difference == pytest.approx(change.second - change.first)
    assert result.total.first == pytest.approx(np.mean([change.first for change in result.labels]))
    assert result.total.second == pytest.approx(np.mean([change.second for change in result.labels]))
    differences = [change.difference for change in result.labels]
    assert differences == sorted(differences, reverse=True)
    assert result.total.interval is None


def test_unknown_pairs_leave_the_ranking():
    first, second, targets = noisy_scores(2)
    known = np.random.default_rng(2).random(targets.shape) < 0.5
    result = compare_scores(first, second, targets, known, classes="ab", resamples=0)
    for change in result.labels:
        column = "ab".index(change.name)
        rows = known[:, column]
        assert change.positives == targets[rows, column].sum()
        assert change.second == pytest.approx(
            100 * average_precision_score(targets[rows, column], second[rows, column])
        )


def test_a_class_without_a_positive_is_named_and_not_counted():
    first, second, targets = noisy_scores(3)
    targets[:, 1] = 0
    result = compare_scores(first, second, targets, classes="abc")
    assert result.without_positive == ("b",)
    assert {change.name for change in result.labels} == {"a", "c"}
    targets[:] = 0
    with pytest.raises(DataError, match="none of the 3 classes"):
        compare_scores(first, second, targets, classes="abc")


def test_equal_scores_are_no_change_and_never_sure():
    first, _, targets = noisy_scores(4)
    result = compare_scores(first, first, targets, classes="abcd")
    assert [change.difference for change in (*result.labels, result.total)] == [0.0] * 5
    assert not any(change.sure for change in (*result.labels, result.total))
    assert result.gained() == result.lost() == []


def test_a_tagger_that_sees_clearer_is_surely_better_and_the_other_way_round_worse():
    first, second, targets = noisy_scores(4, gain=0.8)
    better = compare_scores(first, second, targets, classes="abcd")
    assert better.total.sure
    assert better.total.interval.low > 0
    assert all(change.sure and change.interval.low <= change.difference <= change.interval.high
               for change in better.labels)  # fmt: skip
    worse = compare_scores(second, first, targets, classes="abcd")
    assert worse.total.sure
    assert worse.total.interval.high < 0
    assert worse.total.difference == pytest.approx(-better.total.difference)


def test_of_equally_good_taggers_few_labels_seem_to_differ():
    first, second, targets = noisy_scores(200)
    result = compare_scores(first, second, targets, classes=[str(place) for place in range(200)])
    assert 0.01 <= np.mean([change.sure for change in result.labels]) <= 0.1
    widths = [change.interval.high - change.interval.low for change in result.labels]
    assert result.total.interval.high - result.total.interval.low < np.mean(widths) / 5  # a mean of 200 is steadier


def test_labels_with_few_positives_get_no_interval():
    first, second, targets = noisy_scores(2, gain=1.0)
    targets[:, 0] = np.arange(len(targets)) < 9
    targets[:, 1] = np.arange(len(targets)) < 10
    of = {change.name: change for change in compare_scores(first, second, targets, classes="ab").labels}
    assert of["a"].interval is None
    assert not of["a"].sure
    assert of["b"].interval is not None


def test_draws_are_the_same_for_the_same_seed():
    case = noisy_scores(3)
    assert compare_scores(*case, classes="abc") == compare_scores(*case, classes="abc")
    assert compare_scores(*case, classes="abc") != compare_scores(*case, classes="abc", seed=1)


def test_gains_and_losses_are_beyond_the_least():
    result = comparison_of([3.0, 1.0, 0.0, -1.0, -2.5])
    assert [change.difference for change in result.gained(1.0)] == [3.0]
    assert [change.difference for change in result.lost(0.5)] == [-2.5, -1.0]


def test_taggers_that_share_no_class_are_refused_with_examples_of_both():
    with pytest.raises(DataError, match="'ant', 'bee', 'cat' and 1 more; the second knows 'x'"):
        shared_classes(CLASSES, ["x"])
    assert shared_classes(CLASSES, ["dog", "x", "bee"]) == ("bee", "dog")


def test_everything_fits_into_json():
    first, second, targets = noisy_scores(3)
    targets[:, 2] = np.arange(len(targets)) < 2
    result = compare_scores(first, second, targets, classes="abc")
    gaps = cross_label_gaps(result, [("a", "b")])
    content = json.loads(json.dumps(comparison_to_dict(result, gaps, least=0.5, pairs=3), allow_nan=False))
    assert content["mAP"]["difference"] == pytest.approx(content["mAP"]["second"] - content["mAP"]["first"])
    assert [label["interval"] is None for label in content["labels"]].count(True) == 1
    assert content["gaps"][0]["widths"] == list(gaps[0].widths)
    assert sum(content["pairs"].values()) == 3


# Taggers made by hand: every picture is of one grey, which tells its number, and the logits are looked up.


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = ["image,labels"]
    for number in range(IMAGES):
        Image.new("RGB", (32, 32), (number * 10,) * 3).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{'|'.join(name for name in CLASSES if rng.random() < 0.5)}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    return tmp_path


def tagger_of(classes: tuple[str, ...], seed: int) -> Tagger:
    by_name = dict(zip(CLASSES, np.random.default_rng(seed).normal(size=(len(CLASSES), IMAGES)), strict=True))
    logits = np.stack([by_name.get(name, np.zeros(IMAGES)) for name in classes], axis=1).astype(np.float32)
    return Tagger(
        TaggerSpec(classes, Preprocess(size=32), "x", "gap"), lambda pixels: logits[pixels[:, 0, 0, 0] // 10], "onnx"
    )


def test_the_order_of_a_taggers_classes_changes_nothing(photos):
    table = load_table(photos / "labels.csv")
    straight = compare_taggers(tagger_of(CLASSES, 1), tagger_of(CLASSES, 2), table)
    turned = compare_taggers(tagger_of(CLASSES, 1), tagger_of(CLASSES[::-1], 2), table)
    assert turned == straight
    assert len({change.difference for change in straight.labels}) > 1
    truth = table.with_classes(CLASSES).targets(slice(None))
    scores = [tagger_of(CLASSES, seed).scores([photos / f"{n}.png" for n in range(IMAGES)]) for seed in (1, 2)]
    assert straight == compare_scores(*scores, truth, classes=CLASSES)


def test_taggers_are_compared_on_the_classes_they_share(photos):
    table = load_table(photos / "labels.csv")
    whole = compare_taggers(tagger_of(CLASSES, 1), tagger_of(CLASSES, 2), table)
    first, second = tagger_of((*CLASSES, "elk"), 1), tagger_of(("fox", "dog", "bee", "cat"), 2)
    partly = compare_taggers(first, second, table, ignore_other_labels=True)
    assert partly.only_first == ("ant", "elk")
    assert partly.only_second == ("fox",)
    assert [(c.name, c.first, c.second) for c in partly.labels] == [
        (c.name, c.first, c.second) for c in whole.labels if c.name != "ant"
    ]


def test_a_label_that_one_tagger_does_not_know_is_refused_before_any_scoring(photos):
    def never(pixels):
        raise AssertionError("scored")

    blind = Tagger(tagger_of(CLASSES, 1).spec, never, "onnx")
    with pytest.raises(DataError, match=r"for the second tagger, .*'ant' is not one of the 2 classes"):
        compare_taggers(blind, tagger_of(("bee", "cat"), 2), load_table(photos / "labels.csv"))


def test_unreadable_images_are_named_once_and_not_counted(photos):
    (photos / "3.png").write_bytes(b"no picture")
    table = load_table(photos / "labels.csv")
    taggers = tagger_of(CLASSES, 1), tagger_of(CLASSES, 2)
    result = compare_taggers(*taggers, table)
    assert [Path(error.path).name for error in result.broken] == ["3.png"]
    assert result.images == IMAGES - 1
    rest = compare_taggers(*taggers, table.select([row for row in range(IMAGES) if row != 3]))
    assert (result.labels, result.total) == (rest.labels, rest.total)


def test_progress_runs_over_both_taggers(photos):
    told = []
    compare_taggers(
        tagger_of(CLASSES, 1),
        tagger_of(CLASSES, 2),
        load_table(photos / "labels.csv"),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 2 * IMAGES) for done in range(1, 2 * IMAGES + 1)]


def test_comparing_imports_neither_torch_nor_matplotlib():
    script = (
        "import sys, tagloom.evaluation.compare, tagloom.report.comparison, tagloom.report.comparison_chart\n"
        "assert not {'torch', 'matplotlib', 'sklearn', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
