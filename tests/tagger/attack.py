"""Attack the readers of tagger folders with many hostile files, in a process of its own.

    python attack.py KIND:ROUNDS … FOLDER

For every kind it prints one line of JSON: rounds, how many files were taken and refused, everything that was raised and
is not Tagloom's own error, the slowest round in seconds, and the most memory in MB.
"""

import faulthandler
import json
import random
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tagloom.errors import TagloomError

sys.path.insert(0, str(Path(__file__).parent))
from mutate import changed, damaged, hostile_json, other_graph

FIXTURES = Path(__file__).parents[1] / "fixtures" / "format-1"
PICTURE = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
Round = Callable[[random.Random], None]


def tagger_json(folder: Path) -> Round:
    from tagloom.predict.tagger import load
    from tagloom.tagger.card import model_card

    content = json.loads((folder / "tagger.json").read_text(encoding="utf-8"))
    words = json.loads((FIXTURES / "words" / "tagger.json").read_text(encoding="utf-8"))["words"]

    def attack(rng: random.Random) -> None:
        given = content | ({"words": words} if rng.random() < 0.2 else {})
        (folder / "tagger.json").write_bytes(hostile_json(rng, given))
        tagger = load(folder, device="cpu")
        tagger.predict(PICTURE)
        model_card(tagger.spec)

    return attack


def words_json(folder: Path) -> Round:
    from tagloom.predict.any_labels import read_label_scorer
    from tagloom.tagger.spec import read_spec

    shutil.copytree(FIXTURES / "words", folder, dirs_exist_ok=True)
    content = json.loads((folder / "tagger.json").read_text(encoding="utf-8"))
    vectors = (folder / "words.safetensors").read_bytes()

    def attack(rng: random.Random) -> None:
        (folder / "tagger.json").write_text(json.dumps(content | {"words": changed(rng, content["words"])}))
        (folder / "words.safetensors").write_bytes(damaged(rng, vectors) if rng.random() < 0.5 else vectors)
        scorer = read_label_scorer(
            folder,
            read_spec(folder),
            lambda pictures, words: np.zeros((len(pictures), words[:, :, 0].size), np.float32),
        )
        if scorer is not None:
            scorer.for_own_classes()(PICTURE[None])

    return attack


def recipe_yaml(folder: Path) -> Round:
    from tagloom.recipe import load_recipe
    from tagloom.recipe.yaml_text import write_yaml

    text = (FIXTURES / "hsq" / "recipe.yaml").read_text(encoding="utf-8")
    content = load_recipe(str(FIXTURES / "hsq" / "recipe.yaml")).to_dict()

    def attack(rng: random.Random) -> None:
        if rng.random() < 0.5:
            written = damaged(rng, text.encode())
        else:
            try:
                written = write_yaml(changed(rng, content)).encode("utf-8", "replace")
            except RecursionError:  # our writer is not what is attacked
                return
        (folder / "recipe.yaml").write_bytes(written)
        load_recipe(str(folder / "recipe.yaml")).to_yaml()

    return attack


def onnx(folder: Path) -> Round:
    from tagloom.predict.engine import open_engine
    from tagloom.tagger.spec import read_spec

    spec = read_spec(folder)
    small, real = (folder / "small.onnx").read_bytes(), (FIXTURES / "words" / "model.onnx").read_bytes()
    words = np.zeros((2, 3, 6), np.float32)

    def attack(rng: random.Random) -> None:
        with_words = rng.random() < 0.2
        content = real if with_words else small
        (folder / "model.onnx").write_bytes(damaged(rng, content) if rng.random() < 0.5 else other_graph(rng, content))
        open_engine(folder, spec, "cpu").run(PICTURE[None], *([words] if with_words else []))

    return attack


def run_json(folder: Path) -> Round:
    from tagloom.training.plan import RunPlan, check_options

    content = json.loads((FIXTURES / "hsq" / "run.json").read_text(encoding="utf-8"))

    def attack(rng: random.Random) -> None:
        (folder / "run.json").write_bytes(hostile_json(rng, content))
        plan = RunPlan.read(folder)
        plan.check_same(plan)
        check_options(plan.recipe)

    return attack


def safetensors(folder: Path) -> Round:
    import torch

    from tagloom.models.network import load_network
    from tagloom.tagger.spec import read_spec

    content = json.loads((folder / "tagger.json").read_text(encoding="utf-8"))
    weights = (folder / "model.safetensors").read_bytes()
    names = ("head", "head_options", "backbone", "preprocess", "classes")

    def attack(rng: random.Random) -> None:
        given = content
        if rng.random() < 0.5:
            given = content | changed(rng, {name: content[name] for name in names})
        (folder / "tagger.json").write_text(json.dumps(given))
        (folder / "model.safetensors").write_bytes(damaged(rng, weights) if rng.random() < 0.7 else weights)
        network = load_network(folder, read_spec(folder))
        with torch.no_grad():
            network(torch.zeros(1, 32, 32, 3, dtype=torch.uint8))

    return attack


KINDS = {
    "tagger.json": tagger_json,
    "words": words_json,
    "recipe.yaml": recipe_yaml,
    "onnx": onnx,
    "run.json": run_json,
    "safetensors": safetensors,
}


def most_memory() -> float:
    """Give the most memory of this process in MB. What getrusage says counts the process that started it, too."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def main() -> None:
    """Run the rounds of every kind that is named."""
    faulthandler.enable()
    *wanted, folder = sys.argv[1:]
    for argument in wanted:
        kind, _, rounds = argument.partition(":")
        place = Path(shutil.copytree(folder, Path(folder).parent / kind))
        attack = KINDS[kind](place)
        refused, slowest, odd_errors = 0, 0.0, []
        for number in range(int(rounds)):
            started = time.perf_counter()
            try:
                attack(random.Random(f"{kind} {number}"))
            except TagloomError as error:
                refused += 1
                if len(str(error)) > 5000:
                    odd_errors.append(f"round {number}: a message of {len(str(error))} characters: {str(error)[:500]}")
            except Exception:  # noqa: BLE001, whatever it is, it is a finding
                odd_errors.append(f"round {number}: {traceback.format_exc()[-1500:]}")
            slowest = max(slowest, time.perf_counter() - started)
        report = {"kind": kind, "rounds": int(rounds), "refused": refused, "odd": odd_errors}
        report |= {"slowest": slowest, "mb": most_memory()}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
