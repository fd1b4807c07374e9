"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

import io

from rich.console import Console

from tagloom.progress import SECONDS_BETWEEN_LINES, ProgressDisplay, show_progress


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines_of(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_without_a_terminal_a_line_with_count_rate_and_time_left_comes_every_half_minute():
    console, clock = Console(file=io.StringIO(), width=100), Clock()
    with ProgressDisplay(console, clock=clock) as display:
        for done in range(0, 4801, 10):
            display.update("features of training images", done, 4800)
            clock.now += 0.125
    lines = lines_of(console)
    assert lines[0] == "features of training images: 2,400 of 4,800, 80.0/s, 0:30 left"
    assert len(lines) == 60 // SECONDS_BETWEEN_LINES


def test_work_that_was_half_done_before_is_not_counted_as_fast():
    console, clock = Console(file=io.StringIO(), width=100), Clock()
    with ProgressDisplay(console, clock=clock) as display:
        display.update("training", 500, 1000)
        clock.now += 40
        display.update("training", 540, 1000, note="loss 0.5")
    assert lines_of(console) == ["training: 540 of 1,000, 1.0/s, 7:40 left  loss 0.5"]


def test_short_work_says_nothing_without_a_terminal():
    console = Console(file=io.StringIO(), width=100)
    with show_progress(console, "tagging") as progress:
        progress(1, 2)
        progress(2, 2)
    assert lines_of(console) == []


def test_a_terminal_gets_a_bar_and_no_lines():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    clock = Clock()
    with ProgressDisplay(console, clock=clock) as display:
        display.update("tagging", 1, 4)
        clock.now += 60
        display.update("tagging", 3, 4)
    shown = console.file.getvalue()
    assert "3/4" in shown
    assert "left" in shown
    assert "tagging: 3 of 4" not in shown


def test_work_that_alternates_has_one_bar_each_and_a_line_every_half_minute():
    for terminal in (True, False):
        console, clock = Console(file=io.StringIO(), width=100, force_terminal=terminal), Clock()
        with ProgressDisplay(console, clock=clock) as display:
            for epoch in range(4):
                for step in range(1, 11):
                    display.update("training", epoch * 10 + step, 40)
                    clock.now += 1
                for batch in range(1, 6):
                    display.update("scoring", batch, 5)
                    clock.now += 1
            assert len(display._bars.tasks) == 2
        assert ("training: 21 of 40" in console.file.getvalue()) != terminal


def test_silence_is_possible():
    with ProgressDisplay(None) as display:
        display.update("tagging", 1, 2)
