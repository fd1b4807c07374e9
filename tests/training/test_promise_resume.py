"""Promise: a stopped run goes on as if it had not stopped."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

PICTURES: dict[str, Any] = {
    "data": {"holdout": 0.1},
    "preprocess": {"size": 32},
    "augment": {"flip": 0.5, "cutout": 0.3},
    "backbone": {"name": "test_efficientnet", "weights": "none", "frozen": False},
    "head": {"options": {"dropout": 0.2}},
    "optimiser": {"name": "adamw", "learning_rate": 1e-3, "clip_norm": 1},
    "training": {
        "epochs": 3,
        "batch_size": 4,
        "accumulate": 2,
        "ema": 0.9,
        "select": "best",
        "workers": 0,
        "checkpoint_minutes": 0,
        "seed": 5,
    },
}
"""Everything that has a state: dropout, augmentation, batch norms, momentum, averages, groups of batches."""

RECIPES: dict[str, dict[str, Any]] = {
    "pictures, no workers": PICTURES,
    "pictures, 2 workers": PICTURES | {"training": PICTURES["training"] | {"workers": 2}},
    "cached features": PICTURES
    | {"backbone": PICTURES["backbone"] | {"frozen": True}, "augment": {"flip": 0.5}}
    | {"training": PICTURES["training"] | {"epochs": 6}},
    "cached features, a checkpoint per epoch": PICTURES
    | {"backbone": PICTURES["backbone"] | {"frozen": True}, "augment": {"flip": 0.5}}
    | {"training": PICTURES["training"] | {"epochs": 6, "checkpoint_minutes": 600}},
}
STEPS_PER_EPOCH = 5  # 36 images to learn from, in batches of 4, two at a time


class KilledRuns:
    """Runs of one recipe, and what the run that was never stopped ended with."""

    def __init__(self, ask, folder: Path, photos: Path, name: str) -> None:
        self.ask, self.folder, self.recipe = ask, folder, RECIPES[name]
        self.job = {"data": photos / "train.csv", "recipe": self.recipe, "cache": folder / "cache"}
        self.steps = self.recipe["training"]["epochs"] * STEPS_PER_EPOCH
        self.start("whole")
        self.expected = self.outcome("whole")

    def start(self, out: str, *, resume: bool = False, **choices: Any) -> dict[str, Any]:
        orders = self.folder / f"{out}.orders"
        return self.ask(
            "train", out=self.folder / out, resume=resume, orders=orders, keep_checkpoint=True, **self.job, **choices
        )

    def outcome(self, out: str) -> dict[str, Any]:
        """Give everything that a run leaves: weights, optimiser, average, position, and the rows of every step."""
        folder = self.folder / out
        with (folder / "checkpoint" / "last.pt").open("rb") as file:
            file.seek(32)
            state = torch.load(file, weights_only=True)
        for row in state["position"]["history"]:
            del row["seconds"]
        orders: dict[tuple[int, int], list[int]] = {}
        for line in (self.folder / f"{out}.orders").read_text().splitlines():
            epoch, step, rows = json.loads(line)
            assert orders.setdefault((epoch, step), rows) == rows, "a step that was repeated saw other images"
        return {"state": state, "orders": orders, "weights": (folder / "model.safetensors").read_bytes()}


def assert_same(ours: Any, theirs: Any) -> None:
    """Compare nested dicts and lists with tensors in them, to the bit."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert_same(value, theirs[key])
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, torch.Tensor):
        assert torch.equal(ours, theirs)
    else:
        assert ours == theirs


@pytest.mark.fuzz
@pytest.mark.slow
def test_a_run_that_is_killed_twice_at_random_ends_bit_for_bit_like_one_that_was_not(
    ask_server, small_photos, tmp_path, fuzz_rounds
):
    rng = np.random.default_rng()  # other steps every time: it must hold for all of them
    rounds = fuzz_rounds(20)
    names = list(RECIPES) if rounds >= len(RECIPES) else rng.permutation(list(RECIPES))[:rounds].tolist()
    runs = {}
    for name in names:
        (tmp_path / name).mkdir()
        runs[name] = KilledRuns(ask_server, tmp_path / name, small_photos, name)
    for number in range(rounds):
        run, out = runs[names[number % len(names)]], f"killed-{number}"
        first = int(rng.integers(1, run.steps))
        then = int(rng.integers(1, run.steps))
        told = f"round {number}, {names[number % len(names)]}: killed after step {first}, then before rename {then}"
        assert run.start(out, kill_step=first)["code"] == -9, told
        killed = run.start(out, resume=True, kill_rename=3 + then)  # the plan is two files
        assert killed["code"] in (-9, 0), told
        if killed["code"] == -9:
            assert not (run.folder / out / "tagger.json").exists(), told
            ended = run.start(out, resume=True)
            assert (ended["code"], ended["error"]) == (0, None), told
        print(told)
        assert_same(run.outcome(out), run.expected)
        left = {path.name for path in (run.folder / out).rglob("*") if path.suffix in (".partial", ".lock")}
        assert not left, told
