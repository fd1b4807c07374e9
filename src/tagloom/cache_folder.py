"""Where caches are stored: features of frozen backbones and word vectors of labels."""

import os
from pathlib import Path


def default_cache_folder() -> Path:
    """Return the folder for caches: $TAGLOOM_CACHE, or `tagloom` in the user's cache folder."""
    named = os.environ.get("TAGLOOM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tagloom"
