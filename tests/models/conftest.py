"""Puts the helpers of this folder on the path: they write authors' files, and are no tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
