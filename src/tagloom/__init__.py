"""Tagloom puts every label on an image.

The public names load on first use, so that `import tagloom` is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tagloom.data import load_table
    from tagloom.models.attach import attach_head
    from tagloom.models.backbone import create_backbone
    from tagloom.models.heads import create_head
    from tagloom.predict.tagger import Tag, Tagger, load

__all__ = ["Tag", "Tagger", "attach_head", "create_backbone", "create_head", "load", "load_table"]

_HOMES = {
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
    """Import a public name when it is first asked for."""
    if name in _MODULES:
        return import_module(f"tagloom.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tagloom' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "timm", "safetensors"):
            raise
        from tagloom.errors import MissingExtraError

        raise MissingExtraError(f"tagloom.{name}", "train") from error


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
