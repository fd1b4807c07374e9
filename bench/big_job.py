"""A million images through `tagloom predict`: memory, kills and shards, with a network that costs nothing.

    python bench/big_job.py                      # half an hour on two quiet cores; --rows 20000 for a try

Writes a Parquet file of so many small pictures, and tags it with the real command and a stub network. Then

1. memory: the most that one run takes, with tags and scores, against a run of a tenth of the images;
2. kills: the same run is killed with SIGKILL again and again and resumed each time. Its files must equal those of 1;
3. shards: the same images in eight shards, two at a time, must give the rows of 1 in their order, none lost or doubled.
"""

import argparse
import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

KILLS = 6
SHARDS = 8


def main() -> None:
    """Measure and print, or run the command with the stub network."""
    if sys.argv[1:2] == ["predict"]:
        run_command()
        return
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        work = Path(folder)
        tenth, whole = given.rows // 10, given.rows
        write_pictures(work / "tenth.parquet", tenth)
        write_pictures(work / "whole.parquet", whole)
        small = most_memory(work, "tenth", tenth)
        large = most_memory(work, "whole", whole)
        print(f"memory: {small:.0f} MiB for {tenth:,} images, {large:.0f} MiB for {whole:,}: {large / small:.2f} times")
        check_kills(work, whole)
        check_shards(work, whole)


def most_memory(work: Path, name: str, rows: int) -> float:
    """Run the command to its end, and give the most memory that it took, in MiB."""
    started = time.perf_counter()
    process = start(work, name, f"{name}.csv", "--scores", str(work / f"{name}-scores.parquet"))
    _, _, used = os_wait(process)
    seconds = time.perf_counter() - started
    print(f"{rows:,} images in {seconds:.0f} s, {rows / seconds:,.0f}/s", flush=True)
    assert count_rows(work / f"{name}.csv") == rows
    return used.ru_maxrss / 1024


def check_kills(work: Path, rows: int) -> None:
    """Kill the run at random moments, resume it, and compare its files with those of the run that was not killed."""
    journal = work / "killed.csv.partial"
    scores = ("--scores", str(work / "killed-scores.parquet"))
    rng = random.Random(0)
    for turn in range(KILLS):
        aim = journal_rows(journal) + rng.randrange(rows // (KILLS + 2))
        process = start(work, "whole", "killed.csv", *scores, *(["--resume"] if turn else []))
        while process.poll() is None and journal_rows(journal) <= aim:
            time.sleep(0.05)
        process.kill()
        process.wait()
        print(f"killed at {journal_rows(journal):,} images", flush=True)
    assert start(work, "whole", "killed.csv", *scores, "--resume").wait() == 0
    assert (work / "killed.csv").read_bytes() == (work / "whole.csv").read_bytes()
    from pyarrow.parquet import read_table

    ours, theirs = (read_table(work / f"{name}-scores.parquet") for name in ("killed", "whole"))
    assert ours.equals(theirs)
    images = ours.column("image")
    assert len(images) == len(images.unique()) == rows
    print(f"kills: after {KILLS} kills, tags and scores are those of the run that was not killed; {rows:,} rows")


def check_shards(work: Path, rows: int) -> None:
    """Tag in shards, and compare their rows with those of one run, of which each shard holds every eighth."""
    started = time.perf_counter()
    for first in range(1, SHARDS + 1, 2):
        pair = [start(work, "whole", f"{n}.csv", "--shard", f"{n}/{SHARDS}") for n in (first, first + 1)]
        assert all(process.wait() == 0 for process in pair)
    with ExitStack() as opened:
        names = ["whole", *map(str, range(1, SHARDS + 1))]
        whole, *shards = (opened.enter_context((work / f"{name}.csv").open()) for name in names)
        headings = [next(file) for file in (whole, *shards)]
        assert len(set(headings)) == 1
        count = 0
        for count, row in enumerate(whole, 1):
            assert row == next(shards[(count - 1) % SHARDS])
        assert count == rows
        assert all(next(shard, None) is None for shard in shards)
    seconds = time.perf_counter() - started
    print(f"shards: {SHARDS} shards of {rows:,} images give the rows of one run, in {seconds:.0f} s")


def write_pictures(path: Path, rows: int) -> None:
    """Write a Parquet file of small pictures, all with names of their own, as Hugging Face data sets have them."""
    import io

    import pyarrow as pa
    from PIL import Image
    from pyarrow.parquet import ParquetWriter

    rng = np.random.default_rng(0)
    pictures = []
    for _ in range(997):
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(stream, "PNG")
        pictures.append(stream.getvalue())
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    with ParquetWriter(path, pa.schema([("image", kind)])) as writer:
        for first in range(0, rows, 10_000):
            numbers = range(first, min(first + 10_000, rows))
            cells = [{"bytes": pictures[number % 997], "path": f"{number:07}.png"} for number in numbers]
            writer.write_table(pa.table({"image": pa.array(cells, kind)}))


def start(work: Path, name: str, out: str, *options: str) -> "subprocess.Popen[bytes]":
    """Start the command with the stub network."""
    command = [sys.executable, __file__, "predict", str(work / f"{name}.parquet"), "--out", str(work / out), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def os_wait(process: "subprocess.Popen[bytes]") -> tuple[int, int, resource.struct_rusage]:
    """Wait for a process, and give what it used."""
    import os

    found = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(found[1])
    assert process.returncode == 0
    return found


def journal_rows(path: Path) -> int:
    """Give about how many images a journal holds, from its size: a line has about 100 bytes."""
    return path.stat().st_size // 100 if path.exists() else 0


def count_rows(path: Path) -> int:
    """Count the rows of a CSV file."""
    with path.open(newline="") as file:
        return sum(1 for _ in csv.reader(file)) - 1


def run_command() -> None:
    """Run `tagloom` with a tagger that says how bright a picture is."""
    from tagloom.cli import main as command
    from tagloom.predict import tagger as taggers
    from tagloom.recipe.pictures import Preprocess
    from tagloom.tagger.spec import TaggerSpec

    def run(pictures: np.ndarray) -> np.ndarray:
        level = pictures.reshape(len(pictures), -1).mean(1) / 64 - 1
        return np.stack([level, -level, level / 2, -level / 2], 1).astype(np.float32)

    spec = TaggerSpec(("bright", "dark", "day", "night"), Preprocess(size=32), "stub", "gap")
    taggers.load = lambda *arguments, **options: taggers.Tagger(spec, run, "onnx", name="stub")
    command()


if __name__ == "__main__":
    main()
