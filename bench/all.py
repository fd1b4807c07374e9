"""Every speed claim of the project, as a ratio against a named rival in the same run; writes docs/benchmarks.md.

    make bench                                  # about ten minutes on two quiet cores
    python bench/all.py --brief --out /tmp/benchmarks.md            # shows that all work; the ratios mean little
    python bench/all.py --only metrics experts --out /tmp/some.md

Each bench runs in a process of its own and draws its data; with TAGLOOM_BENCH_PHOTOS=folder, predictions run on the
JPEGs of that folder.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from drawn import PHOTOS
from ratio import Ratio, as_table
from tagloom.cores import usable_cores

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
BENCHES = {
    "predicting": "Tagging many images",
    "ready_tagger": "The first tag",
    "exports": "Exports",
    "serve_load": "Serving",
    "report": "Reports",
    "frozen_training": "Training on a frozen backbone",
    "training_epoch": "An epoch on cached maps",
    "tail_training": "Training the tail of a backbone",
    "ml_decoder": "ML-Decoder against its literal form",
    "experts": "Hybrid sharing against its literal form",
    "label_scaling": "Cost against the number of labels",
    "metrics": "Metrics",
    "table_memory": "Label tables",
    "label_graph": "Partitions of labels",
}
"""Benches that have `run`, and the heading of each."""

OTHERS = {
    "big_job": "a million images, killed and resumed: memory and rows, half an hour",
    "eight_bit_maps": "what maps in 8 bits cost a trained tagger, in mAP and space",
    "jpeg_decoding": "which JPEG decoder to use",
    "keywords": "whether time and memory of keywords grow with the library",
    "many_labels": "training and metrics with 9,600 labels and a million rows: rate and memory, ten minutes",
    "multiply_adds": "multiply-adds of heads against the ML-Decoder paper's tables",
    "throughput": "ML-Decoder's Table 9 with a backbone in front: speed and the largest batch",
}
"""Benches that measure something other than speed against a rival, or need data of yours."""

PACKAGES = ("tagloom", "torch", "timm", "onnxruntime", "numpy", "scipy", "scikit-learn", "pillow")


def main() -> None:
    """Run all benches, or one in this process."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES), metavar="BENCH")
    arguments.add_argument("--brief", action="store_true", help="do as little as possible")
    arguments.add_argument("--out", type=Path, default=PAGE)
    arguments.add_argument("--one", choices=list(BENCHES), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        found = importlib.import_module(given.one).run(brief=given.brief)
        print(json.dumps([asdict(ratio) for ratio in found]))
        return
    if given.out == PAGE and (given.brief or set(given.only) != set(BENCHES)):
        arguments.error("docs/benchmarks.md is of a full run. Name another file: --out /tmp/benchmarks.md")
    started, results = time.monotonic(), {}
    for name in given.only:
        begun = time.monotonic()
        results[name] = run_apart(name, given.brief)
        print(f"\n{BENCHES[name]} (bench/{name}.py, {time.monotonic() - begun:.0f} s)\n", flush=True)
        print(as_table(results[name]), flush=True)
    given.out.write_text(page(results, time.monotonic() - started, given.brief), encoding="utf-8")
    print(f"\nWritten to {given.out}")


def run_apart(name: str, brief: bool) -> list[Ratio]:
    """Run a bench in a process of its own, so that neither memory nor threads of one change another."""
    command = [sys.executable, __file__, "--one", name, *(["--brief"] if brief else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Ratio(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def page(results: dict[str, list[Ratio]], seconds: float, brief: bool = False) -> str:
    """Write the page in Markdown."""
    photos = "photographs" if os.environ.get(PHOTOS) else "drawn scenes"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    parts = [
        "# Benchmarks",
        "Every speed claim as a ratio: Tagloom against a named rival on the same data, in turns, in the same run. "
        "`make bench` runs them all again on your machine and writes this page.",
        f"{datetime.now(UTC):%Y-%m-%d}, {processor()}, {usable_cores()} cores, {memory_gigabytes():.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}; {versions}. Images are {photos}. "
        f"The run took {seconds / 60:.1f} minutes.",
        "A ratio above 1 means that Tagloom is faster. Where the rival is the bare machine (a network alone, no "
        "server), 1 is the most that can be reached.",
    ]
    if brief:
        parts.append("**This was a brief run. It shows that every bench works; its ratios mean little.**")
    for name, ratios in results.items():
        parts += [f"## {BENCHES[name]}", f"`bench/{name}.py`", as_table(ratios)]
    parts += [
        "## Other measurements",
        "Not in `make bench`, since they measure something else than speed, or need your data. `--help` explains each.",
        "\n".join(f"- `bench/{name}.py`: {what}" for name, what in OTHERS.items()),
    ]
    return "\n\n".join(parts) + "\n"


def processor() -> str:
    """Name the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def memory_gigabytes() -> float:
    """Give the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


if __name__ == "__main__":
    main()
