"""Damaged XMP is edited with nothing lost, or refused with a message of ours, in little time and memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MOST_SECONDS = 20  # for one small document, on a machine that is busy with other things
MOST_MEGABYTES = 200


@pytest.mark.fuzz
def test_damaged_documents_lose_nothing(fuzz_rounds):
    rounds = fuzz_rounds(20_000)
    done = subprocess.run(
        [sys.executable, str(HERE / "damaged_xmp.py"), str(rounds)], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert sum(found["results"].values()) == rounds
    assert found["results"]["as it was"] > 0.1 * rounds  # or the damage would be too coarse
    assert found["results"]["refused"] > 0.1 * rounds
    assert found["slowest"] < MOST_SECONDS
    assert found["memory"] < MOST_MEGABYTES
