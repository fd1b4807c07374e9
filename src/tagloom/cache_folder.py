"""Where caches lie: features of frozen backbones, vectors of labels."""

import os
from pathlib import Path


def default_cache_folder() -> Path:
    """Give the folder for caches: $TAGLOOM_CACHE, or `tagloom` in the user's cache folder."""
    named = os.environ.get("TAGLOOM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tagloom"
