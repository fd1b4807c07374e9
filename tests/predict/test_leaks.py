"""Thousands of predictions in one process: memory, open files and threads stay as they were."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.errors import ImageError
from tagloom.predict.files import Job
from tagloom.predict.tagger import load

MOST_GROWTH = 16 * 2**20  # bytes; the allocator's own ups and downs are about 2 MB


def memory() -> int:
    """Bytes of memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.fuzz
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_predictions_leave_memory_and_open_files_as_they_were(
    untrained_run: Path, tmp_path: Path, fuzz_rounds: Callable[[int], int]
) -> None:
    tagger = load(untrained_run)
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.jpg" for number in range(8)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(paths[0].read_bytes()[:300])
    pixels = np.asarray(Image.open(paths[0]).convert("RGB"))

    def predict(rounds: int) -> None:
        """Five predictions a round: a path, bytes, pixels, an unreadable image, and a file of tags."""
        for number in range(rounds):
            path = paths[number % len(paths)]
            tagger.predict(path)
            tagger.predict(path.read_bytes(), top_k=2)
            tagger.predict(pixels)
            with pytest.raises(ImageError):
                tagger.predict(broken)
            Job(tagger, [path, broken], tmp_path / "tags.csv").run()

    predict(20)  # what is made once: pools, caches of libraries
    before = memory(), open_files(), threading.active_count()
    predict(fuzz_rounds(10_000) // 5)
    grown = memory() - before[0]
    assert (open_files(), threading.active_count()) == before[1:]
    assert grown < MOST_GROWTH, f"{grown / 2**20:.1f} MiB more than before"
    print(f"memory grew by {grown / 2**20:.1f} MiB")
