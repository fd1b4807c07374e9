"""Metrics, against scikit-learn and loops that spell the definitions out."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix
from sklearn.metrics import average_precision_score

from tagloom.errors import DataError
from tagloom.metrics import average_precision, blocks, f1_at_k, score, top1_accuracy
from tagloom.recipe.names import METRIC_NAMES, SHOWN_METRICS, SINGLE_LABEL_METRICS

Case = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Scores with many ties, targets and known: up to 12 images and 6 classes, some absent, some unknown."""
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 6)))
    scores = draw(arrays(np.float32, shape, elements=st.integers(0, 8).map(lambda step: step / 8)))
    return scores, draw(arrays(np.uint8, shape, elements=st.integers(0, 1))), draw(arrays(bool, shape))


def random_case(images: int = 60, classes: int = 25, seed: int = 0) -> Case:
    generator = np.random.default_rng(seed)
    scores = np.round(generator.random((images, classes)), 2).astype(np.float32)
    targets = (generator.random((images, classes)) < 0.2).astype(np.uint8)
    targets[:, 3] = 0
    targets[:, 4] = 1
    known = generator.random((images, classes)) < 0.8
    known[:, 5] = False
    return scores, targets, known


def literal_average_precision(scores: np.ndarray, targets: np.ndarray, kind: str) -> float:
    """One class: precision and recall at every threshold, then the sum that the kind asks for."""
    points = []
    for threshold in np.unique(scores)[::-1]:
        chosen = scores >= threshold
        points.append((targets[chosen].sum() / targets.sum(), targets[chosen].mean()))
    if kind == "voc-11-point":
        best = [max(p for r, p in points if r > level / 10 - 1e-9) for level in range(11)]
        return float(np.mean(best))
    total, reached = 0.0, 0.0
    for recall, precision in points:
        height = precision if kind == "non-interpolated" else max(p for r, p in points if r >= recall)
        total, reached = total + (recall - reached) * height, recall
    return total


def literal_measures(predicted: np.ndarray, targets: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """CP, CR, OP, OR and their F1s, pair by pair."""
    precisions, recalls, all_hits, all_predicted, all_positive = [], [], 0, 0, 0
    for column in range(targets.shape[1]):
        hits = guesses = positives = 0
        for row in range(len(targets)):
            if known[row, column]:
                hits += int(predicted[row, column] and targets[row, column])
                guesses += int(predicted[row, column])
                positives += int(targets[row, column])
        if positives:
            precisions.append(hits / guesses if guesses else 0.0)
            recalls.append(hits / positives)
        all_hits, all_predicted, all_positive = all_hits + hits, all_predicted + guesses, all_positive + positives
    cp, cr = np.mean(precisions), np.mean(recalls)
    op, orr = all_hits / all_predicted if all_predicted else 0.0, all_hits / all_positive
    f1s = [2 * p * r / (p + r) if p + r else 0.0 for p, r in ((cp, cr), (op, orr))]
    values = {"CP": cp, "CR": cr, "CF1": f1s[0], "OP": op, "OR": orr, "OF1": f1s[1]}
    return {name: 100 * float(value) for name, value in values.items()}


def in_top(scores: np.ndarray, known: np.ndarray, k: int) -> np.ndarray:
    """True for the k best known classes of each image, the first of equals."""
    chosen = np.zeros(scores.shape, bool)
    for row in range(len(scores)):
        order = sorted(np.flatnonzero(known[row]), key=lambda column: (-scores[row, column], column))
        chosen[row, order[:k]] = True
    return chosen


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert json.dumps(first) == json.dumps(second)


@settings(deadline=None)
@given(cases())
def test_average_precision_is_scikit_learns_over_known_pairs(case: Case) -> None:
    scores, targets, known = case
    given_ = average_precision(scores, targets, known)
    for column in range(scores.shape[1]):
        seen = known[:, column]
        truth = targets[seen, column]
        if truth.sum():
            assert given_[column] == pytest.approx(average_precision_score(truth, scores[seen, column]), abs=1e-12)
        else:
            assert np.isnan(given_[column])


@settings(deadline=None)
@given(cases(), st.sampled_from(["non-interpolated", "voc-11-point", "interpolated"]))
def test_every_kind_of_average_precision_follows_its_definition(case: Case, kind: Any) -> None:
    scores, targets, known = case
    given_ = average_precision(scores, targets, known, kind)
    for column in range(scores.shape[1]):
        seen = known[:, column]
        if targets[seen, column].sum():
            expected = literal_average_precision(scores[seen, column], targets[seen, column], kind)
            assert given_[column] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["non-interpolated", "voc-11-point", "interpolated"])
def test_recalls_that_fall_on_a_level_reach_it(kind: Any) -> None:
    generator = np.random.default_rng(2)
    scores = generator.random((80, 40))
    targets = np.argsort(np.argsort(generator.random((80, 40)) - scores / 4, axis=0), axis=0) < 10  # 10 in every class
    expected = [literal_average_precision(scores[:, column], targets[:, column], kind) for column in range(40)]
    np.testing.assert_allclose(average_precision(scores, targets, kind=kind), expected, rtol=1e-12)


def test_an_unknown_kind_of_average_precision_is_refused() -> None:
    with pytest.raises(DataError, match="did you mean 'voc-11-point'"):
        average_precision(np.ones((1, 1)), np.ones((1, 1)), kind="voc-11point")  # type: ignore[arg-type]


@settings(deadline=None)
@given(cases(), st.integers(1, 4), st.integers(0, 8))
def test_precision_recall_and_f1_follow_their_definitions(case: Case, top_k: int, eighths: int) -> None:
    scores, targets, known = case
    targets[0, 0], known[0, 0] = 1, True
    result = score(scores, targets, known, threshold=eighths / 8, top_k=top_k)
    over = scores > eighths / 8
    expected = literal_measures(over, targets, known)
    top = literal_measures(over & in_top(scores, known, top_k), targets, known)
    expected |= {f"{name}_top{top_k}": value for name, value in top.items()}
    for name, value in expected.items():
        assert result[name] == pytest.approx(value, abs=1e-9), name


def test_map_is_the_mean_over_classes_that_have_a_positive_and_the_others_are_named() -> None:
    scores, targets, known = random_case()
    result = score(scores, targets, known)
    assert result["classes_without_positive"] == [3, 5]
    assert [index for index, value in enumerate(result["AP"]) if value is None] == [3, 5]
    measured = [value for value in result["AP"] if value is not None]
    assert result["mAP"] == pytest.approx(np.mean(measured))
    assert result["AP"][4] == pytest.approx(100)
    assert result["images"] == 60


def test_the_result_is_plain_json_without_nan() -> None:
    scores, targets, known = random_case()
    result = score(scores, targets, known)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_per_class_thresholds_apply_each_to_its_class() -> None:
    scores, targets, known = random_case()
    limits = np.linspace(0.1, 0.9, scores.shape[1]).astype(np.float32)
    result = score(scores, targets, known, threshold=limits)
    expected = literal_measures(scores > limits, targets, known)
    top = literal_measures((scores > limits) & in_top(scores, known, 3), targets, known)
    for name, value in expected.items():
        assert result[name] == pytest.approx(value)
        assert result[f"{name}_top3"] == pytest.approx(top[name])
    assert_same(score(scores, targets, known, np.full(scores.shape[1], 0.3)), score(scores, targets, known, 0.3))


def test_a_score_equal_to_the_threshold_is_not_over_it() -> None:
    scores = np.array([[0.3], [0.4]], np.float32)
    assert score(scores, np.array([[1], [1]]), threshold=0.3)["CR"] == 50
    assert score(scores.astype(np.float64), np.array([[1], [1]]), threshold=0.4)["CR"] == 50


def test_a_single_image_can_be_scored() -> None:
    result = score(np.array([[0.9, 0.2, 0.7]]), np.array([[1, 1, 0]]))
    assert result["AP"] == [100.0, 100.0, None]
    assert (result["OP"], result["OR"]) == (50.0, 50.0)


@pytest.mark.parametrize("form", [csr_array, csc_array, coo_array, csr_matrix])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_sparse_targets_score_as_dense_ones(form: Any, dtype: Any) -> None:
    scores, targets, known = random_case()
    sparse = form(targets.astype(dtype))
    assert_same(score(scores, sparse, known), score(scores, targets, known))
    assert f1_at_k(scores, sparse, 2, known) == f1_at_k(scores, targets, 2, known)
    assert top1_accuracy(scores, sparse) == top1_accuracy(scores, targets)


def test_explicit_zeros_of_a_sparse_array_are_negatives() -> None:
    sparse = csr_array((np.array([1, 0]), np.array([0, 0]), np.array([0, 1, 2])), shape=(2, 1))
    assert score(np.array([[0.2], [0.8]]), sparse)["mAP"] == 50


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_scores_of_other_precisions_are_not_rounded(dtype: Any) -> None:
    _, targets, _ = random_case()
    scores = np.random.default_rng(1).normal(size=targets.shape).astype(dtype)
    if dtype == np.float64:
        scores = 0.5 + scores * 1e-12  # one and the same number in float32
    given_ = average_precision(scores, targets)
    for column in np.flatnonzero(targets.any(axis=0)):
        assert given_[column] == pytest.approx(average_precision_score(targets[:, column], scores[:, column]))


def test_half_precision_scores_score_as_the_same_numbers_in_float32() -> None:
    scores, targets, known = random_case()
    half = scores.astype(np.float16)
    assert_same(score(half, targets, known, 0.3), score(half.astype(np.float32), targets, known, 0.3))


def test_memory_maps_transposes_and_boolean_targets_are_read_in_place(tmp_path: Path) -> None:
    scores, targets, known = random_case()
    np.save(tmp_path / "scores.npy", scores)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    expected = score(scores, targets, known)
    assert_same(score(mapped, targets.astype(bool), known), expected)
    assert_same(score(np.asfortranarray(scores), np.asfortranarray(targets), np.asfortranarray(known)), expected)


def test_blocks_and_threads_change_nothing_and_leave_the_arrays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, targets, known = random_case(images=130)
    before = [array.copy() for array in (scores, targets, known)]
    whole = score(scores, targets, known)
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 300)
    monkeypatch.setattr(blocks, "TILE_ROWS", 7)
    assert_same(score(scores, targets, known), whole)
    assert_same(score(scores, csr_array(targets), known), whole)
    for array, copy in zip((scores, targets, known), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_minus_infinity_is_a_score_like_any_other() -> None:
    scores = np.array([[-np.inf], [0.0], [-np.inf], [1.0]])
    targets, known = np.array([[1], [0], [0], [1]]), np.array([[True], [True], [False], [True]])
    assert average_precision(scores, targets, known)[0] == pytest.approx((1 + 2 / 3) / 2)
    assert f1_at_k(np.array([[-np.inf, -np.inf, 3.0]]), np.array([[1, 1, 0]]), 2, np.array([[False, True, True]])) == {
        "P": 50.0,
        "R": 100.0,
        "F1": pytest.approx(200 / 3),
    }


@settings(deadline=None)
@given(cases(), st.integers(1, 7))
def test_f1_at_k_gives_every_image_its_k_best_known_classes(case: Case, k: int) -> None:
    scores, targets, known = case
    targets[0, 0], known[0, 0] = 1, True
    chosen = in_top(scores, known, k)
    hits = (chosen & (targets == 1)).sum()
    precision, recall = 100 * hits / chosen.sum(), 100 * hits / (targets * known).sum()
    f1 = 2 * precision * recall / (precision + recall) if hits else 0
    assert f1_at_k(scores, targets, k, known) == pytest.approx({"P": precision, "R": recall, "F1": f1})


def test_top1_accuracy_counts_images_that_have_a_positive() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.7, 0.3], [0.5, 0.6]])
    targets = np.array([[0, 1], [0, 1], [0, 0], [1, 0]])
    assert top1_accuracy(scores, targets) == pytest.approx(100 / 3)
    known = np.array([[True, True], [False, True], [True, True], [True, False]])
    assert top1_accuracy(scores, targets, known) == 100


@pytest.mark.parametrize("measure", [score, average_precision, top1_accuracy, lambda s, t: f1_at_k(s, t, 1)])
def test_a_score_that_is_not_a_number_is_found(measure: Any) -> None:
    scores, targets, _ = random_case()
    scores[41, 7] = np.nan
    with pytest.raises(DataError, match="row 41, class 7"):
        measure(scores, targets)


@pytest.mark.parametrize("measure", [score, average_precision, top1_accuracy, lambda s, t: f1_at_k(s, t, 1)])
def test_shapes_that_do_not_agree_are_refused(measure: Any) -> None:
    with pytest.raises(DataError, match=r"\(4, 3\) but targets are \(4, 2\)"):
        measure(np.zeros((4, 3)), np.zeros((4, 2)))
    with pytest.raises(DataError, match="images x classes"):
        measure(np.zeros(3), np.zeros(3))
    with pytest.raises(DataError, match="nothing to measure"):
        measure(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(DataError, match=r"\(4, 3\) but targets are \(4, 2\)"):
        measure(np.zeros((4, 3)), csr_array(np.zeros((4, 2))))


def test_targets_other_than_zero_and_one_are_refused() -> None:
    scores, targets, _ = random_case()
    signed = targets.astype(np.int8)
    signed[2, 2] = -1
    with pytest.raises(DataError, match=r"-1 was found.*`known`"):
        score(scores, signed)
    with pytest.raises(DataError, match="2 was found"):
        score(scores, csr_array(targets * 2))


@pytest.mark.parametrize("measure", [score, top1_accuracy, lambda s, t, k: f1_at_k(s, t, 1, k)])
def test_without_a_known_positive_there_is_nothing_to_say(measure: Any) -> None:
    scores, targets, _ = random_case()
    with pytest.raises(DataError, match="known positive"):
        measure(scores, targets, targets == 0)


def test_arguments_that_cannot_work_are_refused() -> None:
    scores, targets, known = random_case()
    with pytest.raises(DataError, match="one for each of 25"):
        score(scores, targets, threshold=np.full(24, 0.5))
    with pytest.raises(DataError, match="one number"):
        score(scores, targets, threshold=float("nan"))
    with pytest.raises(DataError, match="known are"):
        score(scores, targets, known[:, :3])
    with pytest.raises(DataError, match="top 0"):
        score(scores, targets, top_k=0)


def test_importing_metrics_brings_in_nothing_heavy() -> None:
    program = "import sys, tagloom.metrics, tagloom.scoring.thresholds; print([m for m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    for heavy in ("torch", "sklearn", "scipy", "pyarrow"):
        assert f"'{heavy}'" not in loaded


def test_tensors_and_lists_are_taken_for_arrays():
    torch = pytest.importorskip("torch")
    scores, targets = [[0.9, 0.2], [0.1, 0.8]], [[1, 0], [0, 1]]
    assert score(torch.tensor(scores), torch.tensor(targets).float()) == score(
        np.array(scores, np.float32), np.array(targets)
    )
    assert score(scores, targets)["mAP"] == 100.0


@pytest.mark.parametrize("task", ["multi", "single"])
def test_score_has_every_metric_that_a_recipe_can_name(task):
    result = score(np.array([[0.9, 0.2], [0.3, 0.6]]), np.array([[1, 0], [1, 0]]), task=task)
    measured = set(METRIC_NAMES) - (set() if task == "single" else set(SINGLE_LABEL_METRICS))
    assert measured == set(METRIC_NAMES) & set(result)
    assert set(SHOWN_METRICS[task]) <= measured
