"""Drawings show the numbers they were given, and only files that can be drawn are begun."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.errors import DataError, MissingExtraError, TagloomError
from tagloom.evaluation.compare import Change, Comparison, Interval
from tagloom.evaluation.label_pairs import Gap
from tagloom.report import comparison_chart, drawing, heatmap
from tagloom.report.comparison_chart import draw_comparison
from tagloom.report.drawing import check_drawable
from tagloom.report.heatmap import draw_heatmap

GAP = Gap(("cow", "horse"), first=(60.0, 90.0), second=(80.0, 75.0))


def comparison_of(labels: int, judged: bool = True, name: str = "label-{}") -> Comparison:
    """Labels that gain from 20 points down to −20; those that moved by less than 5 are not sure."""
    changes = [
        Change(name.format(place), 20, 50.0, 50.0 + gain, Interval(gain - 5, gain + 5) if judged else None)
        for place, gain in enumerate(np.linspace(20, -20, labels).tolist())
    ]
    return Comparison(100, Change("mAP", 99, 50.0, 51.0, Interval(-1.0, 3.0) if judged else None), tuple(changes))


@pytest.fixture
def figures(monkeypatch):
    """The figures that would be saved."""
    pytest.importorskip("matplotlib")
    drawn = []

    def keep(figure, path):
        drawn.append(figure)
        return Path(path)

    for module in (comparison_chart, heatmap):
        monkeypatch.setattr(module, "save", keep)
    return drawn


def axes_of(figure):
    return figure.get_axes()


def ticks(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_the_suffix_chooses_the_format(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = draw_heatmap([[1.0, 2.0]], ["row"], ["a", "b"], tmp_path / "new" / f"map.{suffix}")
    start = path.read_bytes()[:200]
    assert start.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix.lower()])


def test_a_file_that_cannot_be_drawn_is_refused(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(TagloomError, match=r"map.gif: drawings are written as .png, .svg, .pdf"):
        check_drawable(tmp_path / "map.gif")
    (tmp_path / "taken").write_text("a file, no folder")
    with pytest.raises(TagloomError, match="cannot be written"):
        draw_heatmap([[1.0]], ["row"], ["a"], tmp_path / "taken" / "map.png")


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"drawing needs .*pip install 'tagloom\[plot\]'"):
        check_drawable(tmp_path / "map.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"tagloom\[plot\]"):
        draw_comparison(comparison_of(3), ("a", "b"), tmp_path / "map.png")


def test_drawing_leaves_pyplot_and_its_state_alone(tmp_path):
    pytest.importorskip("matplotlib")
    script = (
        "import sys; from tagloom.report.heatmap import draw_heatmap\n"
        f"draw_heatmap([[1.0]], ['row'], ['column'], {str(tmp_path / 'map.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_bars_are_the_differences_and_strong_where_sure(figures):
    comparison = comparison_of(9)
    draw_comparison(comparison, ("old", "new"), "a.png")
    bars, scatter = axes_of(figures[0])
    assert ticks(bars.yaxis) == [change.name for change in comparison.labels]
    assert [bar.get_width() for bar in bars.patches] == [change.difference for change in comparison.labels]
    assert [bar.get_alpha() == 1.0 for bar in bars.patches] == [change.sure for change in comparison.labels]
    assert len({bar.get_facecolor()[:3] for bar in bars.patches}) == 2
    assert bars.get_xlabel() == "AP of new − AP of old, points"
    (dots,) = scatter.collections
    assert dots.get_offsets().tolist() == [[change.first, change.second] for change in comparison.labels]
    hollow = (dots.get_facecolors()[:, :3] == 1).all(axis=1)
    assert hollow.tolist() == [not change.sure for change in comparison.labels]
    assert "+1.00, 95 % interval −1.00 to +3.00" in figures[0].get_suptitle()


def test_without_intervals_nothing_is_pale(figures):
    draw_comparison(comparison_of(9, judged=False), ("old", "new"), "a.png")
    bars, scatter = axes_of(figures[0])
    assert {bar.get_alpha() for bar in bars.patches} == {1.0}
    assert "chance" not in bars.get_title(loc="left") + scatter.get_title(loc="left")


@pytest.mark.parametrize(("labels", "shown"), [(1, [1]), (40, [40]), (80, [40, 40]), (120, [60, 60]), (121, [30, 30])])
def test_many_labels_take_two_columns_and_very_many_are_cut_to_the_extremes(figures, labels, shown):
    draw_comparison(comparison_of(labels), ("old", "new"), "a.png")
    *columns, _ = axes_of(figures[0])
    names = [ticks(axes.yaxis) for axes in columns]
    assert [len(column) for column in names] == shown
    assert names[0][0] == "label-0"
    assert names[-1][-1] == f"label-{labels - 1}"
    assert len({axes.get_xlim() for axes in columns}) == 1, "bars of both columns can be compared"


def test_names_in_the_scatter_neither_touch_each_other_nor_a_dot(figures):
    rng = np.random.default_rng(0)
    labels = [
        Change(f"some label {place}", 20, *rng.uniform(20, 90, 2).tolist(), Interval(1.0, 2.0)) for place in range(80)
    ]
    labels.sort(key=lambda change: -change.difference)
    draw_comparison(Comparison(9, Change("mAP", 9, 50.0, 50.0), tuple(labels)), ("old", "new"), "a.png")
    figure = figures[0]
    figure.canvas.draw()
    scatter = axes_of(figure)[-1]
    boxes = [text.get_window_extent() for text in scatter.texts]
    assert len(boxes) > 5
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])
        assert scatter.bbox.padded(2).contains(box.x0, box.y0)
        assert scatter.bbox.padded(2).contains(box.x1, box.y1)
    dots = scatter.transData.transform([(change.first, change.second) for change in labels])
    assert not any(box.contains(*dot) for box in boxes for dot in dots)


def test_gaps_are_drawn_as_bars_and_as_a_move_in_the_plane_of_both_labels(figures):
    draw_comparison(comparison_of(9), ("old", "new"), "a.png", [GAP])
    _, _, bars, plane = axes_of(figures[0])
    assert [bar.get_width() for bar in bars.patches] == [30.0, 5.0]
    assert ticks(bars.yaxis) == ["cow – horse"]
    assert [tuple(dot.get_offsets()[0]) for dot in plane.collections] == [(60.0, 90.0), (80.0, 75.0)]
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("AP of cow, %", "AP of horse, %")
    draw_comparison(comparison_of(9), ("old", "new"), "a.png", [GAP] * 7)
    assert len(axes_of(figures[1])) == 2 + 1 + 7


def test_names_from_files_start_no_formula_and_stay_short(tmp_path):
    pytest.importorskip("matplotlib")
    comparison = comparison_of(4, name=r"$\frac{{$ \n {} " + "x" * 5000)  # as a formula this would be an error
    path = draw_comparison(comparison, ("a$b$", "c\nd"), tmp_path / "a.png", [GAP])
    with Image.open(path) as picture:
        assert max(picture.size) < 3000


def test_a_heat_map_has_a_cell_per_value_and_the_first_row_on_top(figures):
    values = np.arange(6.0).reshape(2, 3)
    draw_heatmap(values, ["one", "two"], ["a", "b", "c"], "a.png", title="Load", scale="weight")
    axes, bar = axes_of(figures[0])
    (mesh,) = axes.collections
    np.testing.assert_array_equal(mesh.get_array(), values)
    assert ticks(axes.yaxis) == ["one", "two"]
    assert ticks(axes.xaxis) == ["a", "b", "c"]
    assert axes.get_ylim() == (2.0, 0.0)
    assert axes.get_title(loc="left") == "Load"
    assert bar.get_ylabel() == "weight"


def test_the_last_row_and_column_can_stand_apart_on_the_same_scale(figures):
    values = np.arange(12.0).reshape(3, 4)
    draw_heatmap(values, "abc", "wxyz", "a.png", last_row_apart=True, last_column_apart=True)
    axes = axes_of(figures[0])[0]
    blocks = axes.collections
    assert [block.get_array().shape for block in blocks] == [(2, 3), (2, 1), (1, 3), (1, 1)]
    assert {(block.norm.vmin, block.norm.vmax) for block in blocks} == {(0.0, 11.0)}
    assert np.diff(axes.get_yticks()).tolist() == pytest.approx([1.0, 1.4])
    assert np.diff(axes.get_xticks()).tolist() == pytest.approx([1.0, 1.0, 1.4])
    assert blocks[-1].get_array().item() == 11.0


def test_a_logarithmic_scale_reaches_down_to_the_least_value_but_not_endlessly(figures):
    draw_heatmap([[1.0, 0.01], [0.1, 0.0]], "ab", "xy", "a.png", log=True)
    (mesh,) = axes_of(figures[0])[0].collections
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.01, 1.0)
    assert float(mesh.norm(0.1)) == pytest.approx(0.5)
    assert np.ma.getmaskarray(mesh.get_array()).tolist() == [[False, False], [False, True]]
    draw_heatmap([[1.0, 1e-12]], "a", "xy", "a.png", log=True)
    assert axes_of(figures[1])[0].collections[0].norm.vmin == 1e-4


def test_cells_without_a_value_are_grey_in_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    path = draw_heatmap([[np.nan, 0.5], [0.0, 1.0]], "ab", "xy", tmp_path / "a.png")
    with Image.open(path) as picture:
        colours = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 20)}
    large = {colour for colour, count in colours.items() if count > 2000}
    assert (0xE4, 0xE4, 0xE4) in large
    assert len(large - {(255, 255, 255), (0xE4, 0xE4, 0xE4)}) == 3


@pytest.mark.parametrize("log", [False, True])
def test_values_that_are_all_alike_can_be_drawn(tmp_path, log):
    pytest.importorskip("matplotlib")
    assert draw_heatmap(np.full((3, 3), 0.25), "abc", "abc", tmp_path / "a.png", log=log).stat().st_size


def test_rows_too_many_to_name_are_named_in_steps(figures):
    names = [str(place) for place in range(400)]
    draw_heatmap(np.zeros((400, 5)), names, "abcde", "a.png")
    axes = axes_of(figures[0])[0]
    named = ticks(axes.yaxis)
    assert 100 < len(named) < 200
    assert [axes.get_yticks()[place] for place in (0, 1)] == [0.5, int(named[1]) + 0.5]
    draw_heatmap(np.zeros((100, 100)), names[:100], names[:100], "a.png")
    assert ticks(axes_of(figures[1])[0].yaxis) == names[:100]


@pytest.mark.parametrize(
    ("values", "log", "message"),
    [
        (np.zeros((2, 3)), False, r"2 row and 2 column names was given values of shape \(2, 3\)"),
        (np.full((2, 2), np.inf), False, "infinite"),
        (np.full((2, 2), np.nan), False, "at least one value"),
        (np.zeros((2, 2)), True, "at least one value over 0"),
    ],
)
def test_values_that_make_no_picture_are_refused(tmp_path, values, log, message):
    with pytest.raises(DataError, match=message):
        draw_heatmap(values, ["a", "b"], ["x", "y"], tmp_path / "a.png", log=log)
