"""Puts the helpers of this folder and of tests/data on the path; they are no tests."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "data")]
collect_ignore = ["damaged_xmp.py", "sidecars.py"]
