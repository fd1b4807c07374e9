"""Tagloom puts every label on an image.

    import tagloom

    result = tagloom.train("train.csv", val="val.csv", out="runs/first", epochs=5)
    result.tagger.predict("photo.jpg")

The public names load on first use, so `import tagloom` is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tagloom.api import TrainedTagger, compare, distill, evaluate, study, train
    from tagloom.data import load_table
    from tagloom.models.attach import attach_head
    from tagloom.models.backbone import create_backbone
    from tagloom.models.heads import create_head
    from tagloom.predict.tagger import Tag, Tagger, load

__all__ = [
    "Tag",
    "Tagger",
    "TrainedTagger",
    "attach_head",
    "compare",
    "create_backbone",
    "create_head",
    "distill",
    "evaluate",
    "load",
    "load_table",
    "study",
    "train",
]

_HOMES = {
    "train": "tagloom.api",
    "distill": "tagloom.api",
    "study": "tagloom.api",
    "evaluate": "tagloom.api",
    "compare": "tagloom.api",
    "TrainedTagger": "tagloom.api",
    "load": "tagloom.predict.tagger",
    "Tagger": "tagloom.predict.tagger",
    "Tag": "tagloom.predict.tagger",
    "load_table": "tagloom.data",
    "create_backbone": "tagloom.models.backbone",
    "attach_head": "tagloom.models.attach",
    "create_head": "tagloom.models.heads",
}
_MODULES = ("data", "losses", "metrics")


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _MODULES:
        return import_module(f"tagloom.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tagloom' has no attribute '{name}'")
    from tagloom.extras import needs_train

    with needs_train(f"tagloom.{name}"):
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
