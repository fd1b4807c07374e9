import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.evaluation.hard import hard_classes, hard_instances

CLASSES = ("cat", "dog", "owl")


def test_the_lowest_score_of_a_true_label_comes_first_and_an_image_comes_once() -> None:
    scores = np.array([[0.9, 0.2, 0.1], [0.05, 0.3, 0.8], [0.5, 0.5, 0.5], [0.4, 0.6, 0.7]], np.float32)
    targets = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]], np.uint8)
    found = hard_instances(scores, targets, CLASSES, count=10)
    assert [(entry.row, entry.label, entry.before) for entry in found] == [(1, "cat", 2), (0, "dog", 1), (3, "owl", 0)]
    assert [entry.score for entry in found] == pytest.approx([0.05, 0.2, 0.7])
    assert [entry.row for entry in hard_instances(scores, targets, CLASSES, count=1)] == [1]


def test_classes_are_sorted_by_the_mean_score_of_their_true_images() -> None:
    scores = np.array([[0.9, 0.2, 0.1], [0.5, 0.4, 0.8]], np.float32)
    targets = np.array([[1, 1, 0], [1, 1, 0]], np.uint8)
    found = hard_classes(scores, targets, None, CLASSES, np.array([0.6, 0.1, 0.5], np.float32))
    assert [entry.label for entry in found] == ["dog", "cat"]  # owl has no positive
    dog, cat = found
    assert (dog.positives, dog.missed, dog.average_precision) == (2, 0.0, 100.0)
    assert cat.score == pytest.approx(0.7)
    assert cat.missed == 0.5


def test_hard_lists_draws_and_writes(finished_run: Path, scenes: Path, tmp_path: Path) -> None:
    drawing, numbers = tmp_path / "hard.png", tmp_path / "hard.json"
    arguments = ["hard", str(finished_run), str(scenes / "test.csv"), "--count", "4", "--plot", str(drawing)]
    result = CliRunner().invoke(app, [*arguments, "--json", str(numbers)])
    assert result.exit_code == 0, result.output
    assert "α" not in result.output
    written = json.loads(numbers.read_text())
    assert len(written["images"]) == 4
    scores = [entry["score"] for entry in written["images"]]
    assert scores == sorted(scores)
    assert all(Path(entry["image"]).is_file() for entry in written["images"])
    with Image.open(drawing) as image:
        assert image.width > 4 * 200


def test_a_drawing_that_is_no_png_is_refused_before_any_work(finished_run: Path, scenes: Path) -> None:
    result = CliRunner().invoke(app, ["hard", str(finished_run), str(scenes / "test.csv"), "--plot", "hard.gif"])
    assert result.exit_code != 0
    assert "end the name in .png" in str(result.exception)
