"""How much memory and time a large CSV table takes: python bench/table_memory.py --rows 1000000.

Writes a table of random labels into a temporary folder, loads it in a process of its own, and prints one line of JSON:
rows, classes, pairs, seconds, and the peak of resident memory in MB, beside what Python and its imports take alone.
"""

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ratio import Ratio, of_seconds
from timing import best_seconds

LABELS_PER_IMAGE = 10


def write_table(path: Path, rows: int, classes: int) -> None:
    """Write a CSV of `rows` images with ten labels each, drawn from `classes` names."""
    rng = random.Random(0)
    names = [f"class number {number}" for number in range(classes)]
    with path.open("w", encoding="utf-8") as file:
        file.write("image,labels\n")
        for row in range(rows):
            file.write(f"images/{row % 1000:03d}/{row:012d}.jpg,{'|'.join(rng.choices(names, k=LABELS_PER_IMAGE))}\n")


def peak_megabytes() -> float:
    """The most memory this process has held at once; getrusage would count the parent's as well."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def load(path: Path) -> None:
    """Load a table and print what it took."""
    from tagloom.data import load_table

    before = peak_megabytes()
    start = time.perf_counter()
    table = load_table(path)
    seconds = time.perf_counter() - start
    found = {"rows": len(table), "classes": len(table.classes), "pairs": int(table.positive.nnz)}
    print(json.dumps({**found, "seconds": round(seconds, 2), "imports_mb": before, "peak_mb": peak_megabytes()}))


def run(brief: bool = False) -> list[Ratio]:
    """Compare with the csv module and scikit-learn's binarizer, which give the same matrix."""
    from sklearn.preprocessing import MultiLabelBinarizer

    from tagloom.data import load_table

    rows, classes = (2_000, 100) if brief else (200_000, 9_600)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        write_table(path, rows, classes)

        def rival() -> int:
            with path.open(encoding="utf-8", newline="") as file:
                labels = [set(row["labels"].split("|")) for row in csv.DictReader(file)]
            return int(MultiLabelBinarizer(sparse_output=True).fit_transform(labels).nnz)

        assert load_table(path).positive.nnz == rival()
        best = best_seconds({"ours": lambda: load_table(path), "rival": rival}, rounds=1 if brief else 3, warm_up=0)
    what = f"reading a table of {rows:,} images and {classes:,} classes, with every check"
    return [of_seconds(what, "csv and scikit-learn's MultiLabelBinarizer", best["ours"], best["rival"])]


def main() -> None:
    """Write a table here, load it there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=9_600)
    parser.add_argument("--load", type=Path, help="only load this table")
    options = parser.parse_args()
    if options.load:
        load(options.load)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        write_table(path, options.rows, options.classes)
        subprocess.run([sys.executable, __file__, "--load", path], check=True)


if __name__ == "__main__":
    main()
