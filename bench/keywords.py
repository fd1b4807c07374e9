"""Memory and time of `keywords write` and `remove` on a large library, without the network: does either grow with it?

    python bench/keywords.py --photos 1000 10000 100000

Every photo is a link to one small image, and the network is a stand-in that gives every photo three tags, so what is
measured is the work on sidecars. Memory is the peak of a process of its own per size, after the tagger is loaded.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tagloom.predict.keywords import Photos, remove_keywords, write_keywords
from tagloom.predict.tagger import Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec

CLASSES = tuple(f"label {number}" for number in range(80))


def main() -> None:
    """Measure each size in a process of its own, and print a table in Markdown."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--photos", type=int, nargs="+", default=[1000, 10_000])
    arguments.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        print(json.dumps(measure(given.one)))
        return
    print("| photos | written /s | removed /s | peak memory over the start, MB | bytes per photo |")
    print("| --- | --- | --- | --- | --- |")
    for count in given.photos:
        command = [sys.executable, __file__, "--one", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        rates = f"{count / found['write']:,.0f} | {count / found['remove']:,.0f}"
        print(f"| {count:,} | {rates} | {found['memory'] / 2**20:.0f} | {found['memory'] / count:,.0f} |", flush=True)


def measure(count: int) -> dict[str, float]:
    """Write and remove the keywords of a library of so many photos."""
    tagger = Tagger(TaggerSpec(CLASSES, Preprocess(size=32), "none", "none"), three_tags, "onnx", name="stand-in")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library(folder, 64)
        list(write_keywords(tagger, Photos([folder])))  # what is loaded once is no cost of a photo
        library(folder, count)
        before = peak_memory()
        photos = Photos([folder])
        started = time.monotonic()
        for _ in write_keywords(tagger, photos):
            pass
        written = time.monotonic()
        for _ in remove_keywords(photos):
            pass
        removed = time.monotonic()
        assert not list(folder.rglob("*.xmp"))
        return {"write": written - started, "remove": removed - written, "memory": peak_memory() - before}


def library(folder: Path, count: int) -> None:
    """Fill a folder with so many photos, a thousand in each subfolder."""
    first = folder / "first.jpg"
    Image.new("RGB", (40, 30), "red").save(first)
    for number in range(count):
        path = folder / f"{number // 1000}" / f"IMG_{number:06}.jpg"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            os.link(first, path)


def three_tags(pixels: np.ndarray) -> np.ndarray:
    """Give logits (B, N) of which three are above 0."""
    logits = np.full((len(pixels), len(CLASSES)), -3, np.float32)
    logits[:, [3, 5, 8]] = 2
    return logits


def peak_memory() -> int:
    """Give the most memory that this process has had, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
