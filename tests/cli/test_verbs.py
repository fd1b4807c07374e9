"""What all verbs have in common: where they are, what their help says, and what they print without a terminal."""

import subprocess
import sys
from importlib import import_module

import pytest
import typer

from tagloom.cli import VERBS, app, find_verb

COMMANDS = [verb for names in VERBS.values() for verb in map(find_verb, names) if not isinstance(verb, typer.Typer)]
MAIN = ("check", "train", "distill", "evaluate", "predict", "export", "compare")
SMALL = ("backbone.name=test_efficientnet", "backbone.weights=none", "preprocess.size=32", "augment.flip=0")


def tagloom(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, its output in a pipe."""
    return subprocess.run(
        [sys.executable, "-m", "tagloom", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_a_verb_is_in_the_list_and_in_the_file_of_its_name():
    names = [verb.__name__ for verb in COMMANDS]
    assert names == [command.callback.__name__ for command in app.registered_commands]
    assert len(set(names)) == len(names)
    for name in names:
        assert callable(getattr(import_module(f"tagloom.cli.{name}"), name))


@pytest.mark.parametrize("verb", COMMANDS, ids=lambda verb: verb.__name__)
def test_help_starts_with_a_sentence_and_shows_a_command(verb):
    first, *rest = verb.__doc__.strip().split("\n\n")
    assert first.endswith(".")
    example = f"Example: tagloom {verb.__name__} "
    if verb.__name__ in MAIN:
        assert any(part.strip().startswith(example) for part in rest)


def test_the_package_runs_as_the_command():
    for module in ("tagloom", "tagloom.cli"):
        done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("tagloom ")


def test_training_without_a_terminal_prints_each_stage_on_a_line(scenes, tmp_path):
    settings = [word for setting in SMALL for word in ("--set", setting)]
    out = tmp_path / "run"
    done = tagloom(
        *("train", scenes / "train.csv", "--val", scenes / "val.csv", "--out", out, "--epochs", 2),
        *("--cache", tmp_path / "cache", *settings),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    stages = [
        f"Training {out}: {scenes / 'train.csv'}, recipe quick",
        "features of training images: ",
        "features of validation images: ",
        "epoch   1",
        "epoch   2",
        "Validation data",
        f"The tagger is in {out}",
    ]
    found = [next((number for number, line in enumerate(lines) if line.startswith(stage)), -1) for stage in stages]
    assert -1 not in found, (stages[found.index(-1)], done.stdout)
    assert found == sorted(found)
    assert "\x1b" not in done.stdout
