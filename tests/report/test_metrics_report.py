"""The tables of a score."""

import io

import numpy as np
from rich.console import Console

from tagloom.metrics import score
from tagloom.report.metrics import render_metrics


def rendered(classes: int, names: list[str] | None = None, counts: bool = False, absent: tuple[int, ...] = ()) -> str:
    generator = np.random.default_rng(0)
    targets = generator.random((200, classes)) < 0.3
    targets[:, list(absent)] = False
    strength = np.linspace(0, 1, classes)  # class by class easier
    scores = np.clip(generator.random(targets.shape) * 0.5 + targets * strength * 0.5, 0, 1)
    console = Console(file=io.StringIO(), width=80)
    render_metrics(
        score(scores, targets),
        names or [f"class-{index:02d}" for index in range(classes)],
        console,
        targets.sum(axis=0).tolist() if counts else None,
    )
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_headline_shows_every_measure_at_the_threshold_and_in_the_top_3() -> None:
    result = {name: 10.0 + place for place, name in enumerate(("CP", "CR", "CF1", "OP", "OR", "OF1"))}
    result |= {f"{name}_top3": value + 50 for name, value in list(result.items())}
    console = Console(file=io.StringIO(), width=80)
    whole = {"mAP": 81.239, **result, "AP": [81.239, None], "classes_without_positive": [1], "images": 5000}
    render_metrics(whole, ["cat", "unicorn"], console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "mAP 81.24 over 1 of 2 classes, 5,000 images" in text
    (plain,) = (line for line in text.splitlines() if "above the threshold" in line)
    (top,) = (line for line in text.splitlines() if "in the top 3" in line)
    assert [float(cell) for cell in plain.split("│")[2:-1]] == [10, 11, 12, 13, 14, 15]
    assert [float(cell) for cell in top.split("│")[2:-1]] == [60, 61, 62, 63, 64, 65]
    assert "Without a positive image, so not measured (1): unicorn" in text


def test_the_ten_best_and_ten_worst_of_many_classes_are_shown() -> None:
    text = rendered(40)
    best, worst = text.split("The 10 best classes")[1].split("The 10 worst classes")
    assert best.count("class-") == worst.count("class-") == 10
    assert "class-39" in best
    assert "class-00" in worst
    assert "class-20" not in text


def test_few_classes_are_shown_once_each_with_the_best_on_top() -> None:
    text = rendered(20)
    assert all(text.count(f"class-{index:02d}") == 1 for index in range(20))
    values = [float(line.split("│")[2]) for line in text.splitlines() if "class-" in line]
    assert values == sorted(values, reverse=True)


def test_bars_grow_with_average_precision() -> None:
    lengths = [line.count("━") for line in rendered(12).splitlines() if "class-" in line]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1] > 0


def test_counts_are_shown_when_given() -> None:
    assert "positives" in rendered(4, counts=True)
    assert "positives" not in rendered(4)


def test_a_long_list_of_absent_classes_is_cut_with_its_number() -> None:
    text = rendered(60, absent=tuple(range(5, 30)))
    assert "not measured (25)" in text
    assert "and 5 more" in text


def test_names_cannot_carry_markup_or_control_the_terminal() -> None:
    text = rendered(2, ["[red]cat[/red]", "dog\x1b[2J\r\n"])
    assert "[red]cat[/red]" in text
    assert "\x1b" not in text
    assert "\r" not in text
