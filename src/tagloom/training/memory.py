"""Memory that one step frees serves the next.

glibc gives large blocks back to the system at once, and the system clears them again, page by page, when the next step
asks for as much.
"""

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST_KEPT = 32 << 20  # the largest block that glibc lets us keep
MOST_KEPT = 256 << 20


@cache
def keep_freed_memory() -> bool:
    """Let this process keep up to 256 MB of what it freed; gives False where the C library has no such setting."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library than glibc
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)) and bool(mallopt(M_TRIM_THRESHOLD, MOST_KEPT))
