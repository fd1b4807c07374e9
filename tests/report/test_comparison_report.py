"""The tables of a comparison."""

import io

from rich.console import Console

from tagloom.evaluation.compare import Change, Comparison, Interval
from tagloom.evaluation.label_pairs import Gap
from tagloom.report.comparison import render_comparison


def comparison_of(differences, **others) -> Comparison:
    """Labels with an interval of two points around the difference."""
    labels = [
        Change(f"label-{place:02d}", 20 + place, 50.0, 50.0 + gain, Interval(gain - 1, gain + 1))
        for place, gain in enumerate(sorted(differences, reverse=True))
    ]
    mean = sum(differences) / len(differences)
    return Comparison(321, Change("mAP", 99, 50.0, 50.0 + mean, Interval(mean - 1, mean + 1)), tuple(labels), **others)


def rendered(comparison: Comparison, *gaps: Gap, runs=("runs/old", "runs/newer"), **options) -> str:
    console = Console(file=io.StringIO(), width=110)
    render_comparison(comparison, runs, console, gaps, **options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def line_of(text: str, word: str) -> str:
    (line,) = (line for line in text.splitlines() if word in line)
    return line


def test_the_headline_gives_both_maps_and_whether_their_difference_is_sure() -> None:
    text = rendered(comparison_of([4.0, 2.0]))
    assert "runs/old    mAP  50.00" in line_of(text, "A  ")
    assert "mAP  53.00  difference +3.00, 95 % interval +2.00 to +4.00" in line_of(text, "runs/newer")
    assert "chance" not in line_of(text, "runs/newer")
    assert "could be chance" in line_of(rendered(comparison_of([0.5, 0.5])), "runs/newer")
    assert "on 321 images; 2 labels" in text


def test_labels_that_moved_are_counted_beyond_the_least() -> None:
    comparison = comparison_of([5.0, 1.5, 0.5, 0.0, -0.5, -3.0])
    assert "gained: 3 (2 of them certain); lost: 2 (1 of them certain); unchanged: 1" in rendered(comparison)
    text = rendered(comparison, least=1.0)
    assert "gained by more than 1 points: 2 (2 of them certain); lost: 1 (1 of them certain); unchanged: 3" in text


def test_a_row_shows_both_precisions_their_difference_and_a_mark_where_it_is_sure() -> None:
    text = rendered(comparison_of([5.0, 0.5, -3.0]), pairs=0)
    cells = [cell.strip() for cell in line_of(text, "label-00").split("│")[1:-1]]
    assert cells == ["label-00", "20", "50.00", "55.00", "+5.00", "+4.00 to +6.00", "▲"]
    assert line_of(text, "label-01").split("│")[-2].strip() == ""
    assert line_of(text, "label-02").split("│")[-2].strip() == "▼"


def test_of_many_labels_both_ends_are_shown_and_all_on_request() -> None:
    comparison = comparison_of([float(place) for place in range(40)])
    text = rendered(comparison, pairs=0)
    assert [f"label-{place:02d}" in text for place in range(40)] == [place < 10 or place >= 30 for place in range(40)]
    assert "… 20 more" in text
    assert "--json" in text
    every = rendered(comparison, pairs=0, every=True)
    assert all(every.count(f"label-{place:02d}") == 1 for place in range(40))
    assert "--json" not in every


def test_the_caption_says_how_many_marks_chance_alone_would_make() -> None:
    assert "chance alone would mark about 2 of 40 labels" in rendered(comparison_of([1.0] * 40))
    assert "chance alone" not in rendered(comparison_of([1.0] * 10))


def test_without_intervals_nothing_is_said_to_be_sure() -> None:
    labels = (Change("cat", 5, 40.0, 60.0),)
    text = rendered(Comparison(9, Change("mAP", 5, 40.0, 60.0), labels))
    assert "difference +20.00" in text
    assert "▲" not in text
    assert line_of(text, "cat").split("│")[-3].strip() == "–"


def test_pairs_are_counted_and_the_best_listed() -> None:
    text = rendered(comparison_of([5.0, 4.0, 3.0, -2.0]), pairs=2)
    assert "Of 6 pairs of labels, 3 improved together, 0 worsened together, 3 moved apart." in text
    assert "label-00, label-01" in text
    assert "label-00, label-02" in text
    assert "label-01, label-02" not in text
    assert "improved most together" not in rendered(comparison_of([5.0, 4.0]), pairs=0)
    assert "pairs" not in rendered(comparison_of([5.0]))


def test_a_gap_shows_how_far_two_labels_lie_apart_in_both() -> None:
    text = rendered(comparison_of([1.0]), Gap(("cow", "horse"), first=(60.0, 90.0), second=(80.0, 75.0)))
    cells = [cell.strip() for cell in line_of(text, "cow").split("│")[1:-1]]
    assert cells == ["cow, horse", "30.00 (60.00, 90.00)", "5.00 (80.00, 75.00)", "-25.00"]


def test_what_is_left_out_is_counted_and_named() -> None:
    text = rendered(comparison_of([1.0], without_positive=("yak",), only_first=tuple("abcdefg"), only_second=("elk",)))
    assert "Without a positive image, so not measured (1): yak" in text
    assert "Left out, because B does not know them (7): a, b, c, d, e and 2 more" in text
    assert "Left out, because A does not know them (1): elk" in text


def test_names_cannot_carry_markup_or_control_the_terminal() -> None:
    labels = (Change("[red]cat[/red]", 20, 50.0, 55.0), Change("dog\x1b[2J\r\n", 20, 50.0, 52.0))
    gap = Gap(("[bold]x", "y\x1b"), (1.0, 2.0), (3.0, 4.0))
    comparison = Comparison(9, Change("mAP", 40, 50.0, 53.5), labels, without_positive=("z\x1b[0m",))
    text = rendered(comparison, gap, runs=("[blink]a", "b\x1b"))
    assert "\x1b" not in text
    assert "\r" not in text
    for name in ("[red]cat[/red]", "[bold]x", "[blink]a"):
        assert name in text
