"""A run tells what it does: a line per event, a bar with the time left, TensorBoard when asked."""

import builtins
import io
import json

import pytest
from rich.console import Console

from tagloom.errors import MissingExtraError
from tagloom.training.log import LOG_FILE, RunLog

ROW = {"epoch": 1, "loss": 0.5, "learning_rate": 0.1, "mAP": 42.0, "seconds": 1.5}


def lines(folder):
    return [json.loads(line) for line in (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()]


def test_events_are_lines_of_json_in_order(tmp_path):
    with RunLog(tmp_path) as log:
        log.event("start", images=3)
        log.epoch_ends(ROW)
    first, second = lines(tmp_path)
    assert (first["event"], first["images"]) == ("start", 3)
    assert second["event"] == "epoch"
    assert {name: second[name] for name in ROW} == ROW
    assert second["time"] >= first["time"]


def test_a_resumed_run_adds_to_the_log(tmp_path):
    for _ in range(2):
        with RunLog(tmp_path) as log:
            log.event("start", what="Übung")
    assert [line["what"] for line in lines(tmp_path)] == ["Übung", "Übung"]


def test_every_line_is_on_disk_at_once(tmp_path):
    with RunLog(tmp_path) as log:
        log.event("start")
        assert len(lines(tmp_path)) == 1


def test_progress_shows_epochs_loss_and_time_left(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=140, highlight=False)
    with RunLog(tmp_path, console) as log:
        log.work("features of images", 3, 10)
        log.epoch_starts(0, 2, 5, 0)
        for _ in range(5):
            log.step(0, {"loss": 0.25})
        log.epoch_ends(ROW)
        log.epoch_starts(1, 2, 5, 3)
        log.step(1, {"loss": 0.125, "distance": 0.0625})
    shown = console.file.getvalue()
    for text in ("features of images", "3/10", "training", "9/10", "loss 0.125", "distance 0.0625", "left", "mAP 42"):
        assert text in shown


def test_every_term_of_an_epoch_is_logged_and_shown(tmp_path):
    console = Console(file=io.StringIO(), width=140, highlight=False)
    with RunLog(tmp_path, console) as log:
        log.epoch_ends(ROW | {"supervised": 0.375, "distance": 0.125, "CF1": 30.0})
    (line,) = lines(tmp_path)
    assert (line["supervised"], line["distance"]) == (0.375, 0.125)
    shown = console.file.getvalue()
    assert "loss 0.5" in shown
    assert "supervised 0.375  distance 0.125" in shown
    assert "CF1" not in shown, "it depends on thresholds, which are not chosen yet"


def test_without_a_terminal_each_stage_says_that_it_starts_and_then_a_line_comes_every_half_minute(tmp_path):
    console, now = Console(file=io.StringIO(), width=140, highlight=False), [0.0]
    with RunLog(tmp_path, console, clock=lambda: now[0]) as log:
        for done in range(1, 101):
            log.work("reading training images", done, 100)
            now[0] += 0.5
        for epoch in range(2):
            log.epoch_starts(epoch, 2, 20, 0)
            for _ in range(20):
                log.step(epoch, {"loss": 0.5, "distance": 0.25})
                now[0] += 1
            log.work("scoring validation images", 1, 1)
            now[0] += 1
    assert console.file.getvalue().splitlines() == [
        "reading training images: 1 of 100",
        "reading training images: 61 of 100, 2.0/s, 0:20 left",
        "training steps: 0 of 40",
        "training steps: 11 of 40, 1.1/s, 0:26 left  epoch 1  loss 0.5  distance 0.25",
        "scoring validation images: 1 of 1",
        "training steps: 40 of 40, 1.1/s, done in 0:19  epoch 2  loss 0.5  distance 0.25",
    ]


def test_a_run_that_is_resumed_in_a_later_epoch_has_a_bar(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=140, highlight=False)
    with RunLog(tmp_path, console) as log:
        log.epoch_starts(3, 4, 5, 2)
        log.step(3, {"loss": 0.5})
    assert "18/20" in console.file.getvalue()


def test_without_a_console_nothing_is_printed(tmp_path, capsys):
    with RunLog(tmp_path) as log:
        log.say("hello")
        log.work("work", 1, 2)
        log.epoch_starts(0, 1, 1, 0)
        log.step(0, {"loss": 1.0})
        log.epoch_ends(ROW)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_tensorboard_gets_the_figures_of_every_epoch(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with RunLog(tmp_path, tensorboard=True) as log:
        log.epoch_ends(ROW)
        log.epoch_ends(ROW | {"epoch": 2, "mAP": 50.0})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("mAP")] == [(1, 42.0), (2, 50.0)]


def test_without_tensorboard_the_install_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if "tensorboard" in name:
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"tagloom\[tensorboard\]"):
        RunLog(tmp_path, tensorboard=True)
