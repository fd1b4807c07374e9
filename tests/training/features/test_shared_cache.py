"""One machine, many runs: they share a cache, and each gives what it would give alone."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.fuzz]

RUNS = """
import json, os, shutil, sys, time, traceback
from pathlib import Path
from tagloom.cache_contents import clear_cache, list_cache
from tagloom.recipe import recipe_from_dict
from tagloom.training import finish
from tagloom.training.features import fill
from tagloom.training.plan import RunPlan
from tagloom.training.run import train

finish.export_onnx = lambda *arguments, **options: 0.0  # it takes seconds, and has no part in this
fill.SHARD_IMAGES = 12  # several shards of 60 images
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

def start(number, name):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(number, work / f"{name}-{number}", work / "cache")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)

def together(name, clear):
    running = [start(number, name) for number in range(count)]  # before this process starts any thread
    failed = cleared = 0
    while running:
        for child in list(running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                running.remove(child)
                failed += status != 0
        if clear:
            cleared += clear_cache(entry for entry in list_cache(work / "cache") if entry.kind == "features").entries
        time.sleep(0.1)
    assert not failed, f"{failed} of {count} runs failed"
    return cleared

together("sharing", clear=False)
computed = [
    sum(line["computed"] for line in map(json.loads, path.read_text().splitlines()) if line["event"] == "features")
    for path in work.glob("sharing-*/log.jsonl")
]
cleared = together("cleared", clear=True)
equal = {"sharing": 0, "cleared": 0}
for number in range(count):
    cache = work / f"cache-{number}"
    if number:
        shutil.copytree(work / "cache-0" / "extractors", cache / "extractors")  # exporting again would give the same
    alone = run(number, work / f"alone-{number}", cache)
    for name in equal:
        equal[name] += alone == (work / f"{name}-{number}" / "model.safetensors").read_bytes()
print(f"{count} runs, {equal['sharing']} and {equal['cleared']} equal to a run alone; cleared {cleared} times")
print("computed", computed)
"""


def test_runs_that_share_a_cache_or_lose_it_each_give_what_they_give_alone(scenes, tmp_path, fuzz_rounds):
    count = max(3, fuzz_rounds(8))
    (tmp_path / "runs.py").write_text(RUNS)
    done = subprocess.run(
        [sys.executable, tmp_path / "runs.py", scenes, tmp_path, str(count)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert done.stdout.startswith(f"{count} runs, {count} and {count} equal to a run alone")
