"""How long a report takes beyond predicting, and how large it is: the ready tagger on drawn images.

    python bench/report.py --images 5000

The rival is the prediction itself, in the same run. Labels are drawn at random from the tagger's 80, so that every
section of the report is full.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import tagloom
from ratio import Ratio, of_seconds
from tagloom.data.scenes import draw_scene
from tagloom.ready import ready_folder
from tagloom.report.page import write_report

DRAWN = 200


def draw_table(folder: Path, classes: tuple[str, ...], images: int) -> Path:
    """Write a table of images with random labels; of 200 drawn images, the others are links to them."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(images):
        path = folder / f"{row}.jpg"
        if row < DRAWN:
            draw_scene(seed=0, index=row)[0].resize((256, 256)).save(path, quality=90)
        else:
            os.link(folder / f"{row % DRAWN}.jpg", path)
        labels = [classes[column] for column in rng.choice(len(classes), rng.integers(1, 6), replace=False)]
        lines.append(json.dumps({"image": path.name, "labels": labels}))
    (folder / "table.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "table.jsonl"


def measure(images: int) -> tuple[int, float, float, float]:
    """Write a report; give its classes, the seconds of predicting and of the rest, and its megabytes."""
    tagger = tagloom.load()
    with tempfile.TemporaryDirectory() as folder:
        table = tagloom.load_table(draw_table(Path(folder), tagger.classes, images))
        out = Path(folder, "report.html")
        started = time.perf_counter()
        facts = write_report(tagger, table, ready_folder(), out)
        total = time.perf_counter() - started
        predicting = images / facts.images_per_second
        return len(tagger.classes), predicting, total - predicting, out.stat().st_size / 1e6


def run(brief: bool = False) -> list[Ratio]:
    """Compare the report with the prediction that it is made from."""
    images = 100 if brief else 1000
    _, predicting, rest, _ = measure(images)
    return [
        of_seconds(f"`tagloom report` of {images:,} images, without predicting", "predicting them", rest, predicting)
    ]


def main() -> None:
    """Write a report and print what it took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--images", type=int, default=5000)
    given = arguments.parse_args()
    classes, predicting, rest, megabytes = measure(given.images)
    print(
        f"{given.images:,} images, {classes} classes: predicting {predicting:.1f} s, the report {rest:.1f} s, "
        f"{megabytes:.2f} MB"
    )


if __name__ == "__main__":
    main()
