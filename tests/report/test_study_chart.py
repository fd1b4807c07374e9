"""Charts of studies: what they hold, and names that do not cover each other."""

from itertools import pairwise
from pathlib import Path

import pytest

from tagloom.studies.outcomes import Outcome, Run, StudyResult

pytest.importorskip("matplotlib")

from tagloom.report import study_chart


def outcome(name: str, line: str, value: float, place=None) -> Outcome:
    runs = tuple(Run(Path(name), {"mAP": value + shift}, 1.0) for shift in (-1.0, 1.0))
    return Outcome(name, line, runs, place=place)


@pytest.fixture
def figure(monkeypatch):
    """The figure that would have been written."""
    kept = []
    monkeypatch.setattr(study_chart, "save", lambda figure, path: kept.append(figure) or Path(path))
    return kept


def texts(axes) -> dict[str, object]:
    return {text.get_text(): text for text in axes.texts}


def test_every_row_has_its_mean_and_its_runs(figure):
    study_chart.draw_study(StudyResult((outcome("a", "a", 50), outcome("b", "b", 60)), ("mAP",)), "x.png")
    (axes,) = figure[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert set(texts(axes)) == {"50.00 ± 1.41", "60.00 ± 1.41"}
    assert "over 2 seeds" in figure[0]._suptitle.get_text()


def test_rows_of_a_line_are_joined_in_the_order_of_the_axis(figure):
    rows = (outcome("b", "l", 60, 8), outcome("a", "l", 50, 2), outcome("alone", "alone", 40))
    study_chart.draw_study(StudyResult(rows, ("mAP",), "distill.k"), "x.png")
    (axes,) = figure[0].axes
    (drawn,) = [line for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_marker() == "o"]
    assert list(drawn.get_ydata()) == [50, 60]
    assert list(axes.get_xticks()) == [2, 8]
    assert {"l", "alone"} <= set(texts(axes))
    (across,) = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert set(across.get_ydata()) == {40}


def test_names_of_lines_that_end_at_the_same_height_are_moved_apart(figure):
    rows = [outcome(f"{line}{place}", line, 50 + 0.01 * number, place)
            for number, line in enumerate("abcd") for place in (1, 2)]  # fmt: skip
    study_chart.draw_study(StudyResult(tuple(rows), ("mAP",), "distill.k"), "x.png")
    heights = sorted(text.xyann[1] for text in figure[0].axes[0].texts)
    low, high = figure[0].axes[0].get_ylim()
    assert all(b - a > 0.05 * (high - low) for a, b in pairwise(heights))


def test_words_on_the_axis_stand_in_the_order_of_the_rows(figure):
    rows = (outcome("a", "l", 50, "tresnet_s"), outcome("b", "l", 60, "tresnet_m"))
    study_chart.draw_study(StudyResult(rows, ("mAP",), "backbone.name"), "x.png")
    assert [label.get_text() for label in figure[0].axes[0].get_xticklabels()] == ["tresnet_s", "tresnet_m"]
