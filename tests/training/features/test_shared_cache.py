"""One machine, many runs: they share a cache, and each gives what it would give alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.fuzz]

RUNS = """
import os, shutil, sys, time, traceback
from pathlib import Path
from tagloom.cache_contents import clear_cache, list_cache
from tagloom.recipe import recipe_from_dict
from tagloom.training import finish
from tagloom.training.features import extract
from tagloom.training.plan import RunPlan
from tagloom.training.run import train

finish.export_onnx = lambda *arguments, **options: 0.0  # it takes seconds, and has no part in this
extract.CORE_IMAGES, extract.SHARD_IMAGES = 4, 12  # several shards of 60 images
scenes, work, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def run(number, out, cache):
    content = {
        "preprocess": {"size": 32},
        "data": {"holdout": 0.2},
        "augment": {"flip": 0.5},
        "backbone": {"name": "test_efficientnet", "weights": "none", "frozen": True},
        "head": {"name": "gap"},
        "optimiser": {"name": "sgd", "learning_rate": 0.02 * (1 + number)},
        "training": {"epochs": 3, "batch_size": 16, "select": "last"},
    }
    plan = RunPlan(str(scenes / "train.csv"), str(scenes / "val.csv"), recipe_from_dict(content))
    train(plan, out, cache_folder=cache, device="cpu")
    return (out / "model.safetensors").read_bytes()

def start(number):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(number, work / f"together-{number}", work / "cache")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)

running = [start(number) for number in range(count)]  # before this process starts any thread
clear = sys.argv[4] == "clear"
failed = cleared = 0
while running:
    for child in list(running):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            running.remove(child)
            failed += status != 0
    if clear:
        cleared += clear_cache(list_cache(work / "cache")).entries
    time.sleep(0.1)
assert not failed, f"{failed} of {count} runs failed"
equal = 0
for number in range(count):
    alone = work / f"alone-{number}"
    if (work / "alone").exists():
        shutil.copytree(work / "alone" / "extractors", alone / "extractors")  # only exporting again is saved
    else:
        alone = work / "alone"
    equal += run(number, work / f"run-{number}", alone) == (work / f"together-{number}" / "model.safetensors").read_bytes()
print(f"{count} runs, {equal} equal to a run alone, {cleared} entries cleared meanwhile")
"""


def runs_together(scenes: Path, work: Path, count: int, what: str) -> str:
    (work / "runs.py").write_text(RUNS)
    done = subprocess.run(
        [sys.executable, work / "runs.py", scenes, work, str(count), what],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return done.stdout


def test_runs_that_share_a_cache_each_give_what_they_give_alone(scenes, tmp_path, fuzz_rounds):
    count = max(3, min(8, fuzz_rounds(8)))
    assert f"{count} runs, {count} equal" in runs_together(scenes, tmp_path, count, "keep")


def test_runs_go_on_while_somebody_clears_their_cache(scenes, tmp_path, fuzz_rounds):
    count = max(2, min(4, fuzz_rounds(4)))
    assert f"{count} runs, {count} equal" in runs_together(scenes, tmp_path, count, "clear")
