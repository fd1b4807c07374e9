"""The table and the drawing of calibration errors show the numbers they were given."""

import io

import numpy as np
import pytest
from rich.console import Console

from tagloom.metrics import calibration_figures
from tagloom.report import reliability
from tagloom.report.reliability import draw_reliability, render_reliability


@pytest.fixture
def figures():
    rng = np.random.default_rng(0)
    scores = rng.random((200, 7))
    targets = rng.random(scores.shape) < scores
    return {"before": calibration_figures(scores**0.3, targets), "after": calibration_figures(scores, targets)}


def rendered(figures, classes) -> str:
    console = Console(file=io.StringIO(), width=200)
    render_reliability(figures, classes, console)
    return console.file.getvalue()


def test_before_and_after_are_a_row_each(figures):
    text = rendered(figures, "abcdefg")
    for part, title in (("before", "not calibrated"), ("after", "calibrated")):
        (line,) = (line for line in text.splitlines() if f"│ {title} " in line)
        cells = [float(cell) for cell in line.split("│")[2:-1]]
        width, mass = figures[part]["equal-width"], figures[part]["equal-mass"]
        wanted = [width["ECE"], mass["ECE"], width["mean_label_ECE"], mass["mean_label_ECE"], figures[part]["log_loss"]]
        assert cells == pytest.approx(wanted, abs=0.006)


def test_an_uncalibrated_tagger_has_one_row_and_no_control_over_the_terminal(figures):
    text = rendered({"before": figures["before"]}, ["dog\x1b[2J", *"bcdefg"])
    assert "│ calibrated" not in text
    assert "\x1b" not in text


def test_the_labels_that_are_furthest_off_are_named_worst_first(figures):
    text = rendered(figures, "abcdefg")
    errors = figures["after"]["equal-mass"]["label_ECE"]
    named = text.split("Largest ECE in bins of equal mass: ")[1].split()[::2]
    assert named == ["abcdefg"[column] for column in np.argsort(errors)[::-1][:5]]


def test_curves_are_drawn_as_they_are(figures, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(reliability, "save", lambda figure, path: drawn.append(figure))
    draw_reliability(figures, tmp_path / "a.png")
    for axes, kind in zip(drawn[0].get_axes(), ("equal-width", "equal-mass"), strict=True):
        _, *lines = axes.get_lines()
        for line, part in zip(lines, ("before", "after"), strict=True):
            np.testing.assert_allclose(line.get_xdata(), figures[part][kind]["score"])
            np.testing.assert_allclose(line.get_ydata(), figures[part][kind]["frequency"])


def test_a_drawing_is_written(figures, tmp_path):
    pytest.importorskip("matplotlib")
    assert draw_reliability({"before": figures["before"]}, tmp_path / "a.png").stat().st_size
