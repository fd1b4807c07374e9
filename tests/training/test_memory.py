"""Memory that was freed is used again, without asking the system for cleared pages."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
from tagloom.training.memory import keep_freed_memory
if sys.argv[1] == "kept":
    if not keep_freed_memory():
        print("unknown")
        sys.exit()
blocks = lambda: [torch.ones(4 << 20).add_(1) for _ in range(4)]  # 16 MB each
blocks()
blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
blocks()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc is Linux's")
def test_a_step_that_needs_what_the_last_one_freed_touches_no_new_pages():
    found = subprocess.run([sys.executable, "-c", SCRIPT, "kept"], capture_output=True, text=True, check=True).stdout
    if found.strip() == "unknown":
        pytest.skip("this C library cannot keep memory")
    assert int(found) < 100
