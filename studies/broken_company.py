"""What distillation does where labels no longer keep their usual company, on the embedded scenes.

    python studies/broken_company.py --out runs/studies/broken-company

In `test.csv` things come together as in training; in `test_broken.csv` they come independently of each other. What a
tagger loses from one to the other it had from company alone. The variants are those of studies/distillation.py, the
paper's Table 3.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from command import run_study
from distillation import TABLE_3
from tagloom.data import load_table
from tagloom.data.scenes import write_scenes
from tagloom.evaluation.evaluate import evaluate
from tagloom.predict.tagger import load


def main() -> None:
    """Draw scenes, train the variants on them, and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/broken-company"))
    arguments.add_argument("--images", type=int, default=2400, help="training pictures to draw")
    arguments.add_argument("--seeds", type=int, default=3, help="how many seeds to run")
    given = arguments.parse_args()
    scenes = write_scenes(given.out / "scenes", train=given.images, val=600, test=1200)
    variants = [replace(variant, seeds=tuple(range(given.seeds))) for variant in TABLE_3]
    result = run_study(variants, str(scenes / "train.csv"), str(scenes / "val.csv"), given.out)
    tables = [load_table(scenes / name) for name in ("test.csv", "test_broken.csv")]
    lines = ["| variant | seeds | usual company | broken | lost |", "| --- | --- | --- | --- | --- |"]
    for name, folders in result.folders.items():
        taggers = [load(folder, device="cpu") for folder in folders]
        usual, broken = np.array([[evaluate(tagger, table).metrics["mAP"] for tagger in taggers] for table in tables])
        cells = [f"{values.mean():.2f}" for values in (usual, broken, usual - broken)]
        lines.append(f"| {name} | {len(taggers)} | {' | '.join(cells)} |")
    (given.out / "broken.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Console().print("\n".join(lines), markup=False)


if __name__ == "__main__":
    main()
