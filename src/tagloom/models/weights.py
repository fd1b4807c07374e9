"""Weights from files: tensors of any layout and naming that we know, and never an object. Nothing here unpickles."""

import inspect
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.files import is_file
from tagloom.wording import first_line, shown

MAX_COMPUTED_VALUES = 2**26  # 512 MiB of int64
# How training scripts nest what they save; averaged weights go first.
_WRAPPERS = ("state_dict_ema", "model_ema", "ema", "state_dict", "model")
# What data-parallel and compiled networks, and scripts that hold a network, put before names.
_PREFIXES = re.compile(r"^(module\.|_orig_mod\.|model\.|state_dict\.|ema\.)+")
_FILTERS = ("checkpoint_filter_fn", "_filter_fn")  # what timm calls its translations of other names to its own


def load_file(net: nn.Module, path: Path) -> None:
    """Load a backbone's weights from a file; a classifier in the file is ignored.

    Args:
        net: A timm model without a classifier.
        path: A .safetensors file, or a torch checkpoint that loads with `weights_only=True`. Its names may be timm's,
            or those of the network's authors where timm can translate them.
    """
    load_tensors(net, read_weights(path), path)


def load_tensors(net: nn.Module, found: dict[str, Tensor], path: Path) -> list[str]:
    """Load a backbone's weights from tensors of a file, and give the names of the tensors that it had no use for."""
    wanted = net.state_dict()
    if any(name not in found or found[name].shape != value.shape for name, value in _needed(wanted).items()):
        found = _translated(net, found, path)
    absent = [name for name in _needed(wanted) if name not in found]
    if absent:
        raise TaggerError(
            f"{path}: {len(absent)} of the backbone's {len(wanted)} tensors are not in the file, first '{absent[0]}'. "
            "Does the file belong to this backbone?"
        )
    wrong = [name for name in wanted if name in found and found[name].shape != wanted[name].shape]
    if wrong:
        raise TaggerError(
            f"{path}: '{wrong[0]}' has shape {tuple(found[wrong[0]].shape)}, "
            f"the backbone wants {tuple(wanted[wrong[0]].shape)}. Check the backbone's name and the image size."
        )
    net.load_state_dict({name: found.get(name, value) for name, value in wanted.items()})
    return [name for name in found if name not in wanted]


def _needed(wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Leave out the counters of batch norms, which nothing reads and frozen norms do not have."""
    return {name: value for name, value in wanted.items() if not name.endswith("num_batches_tracked")}


def _translated(net: nn.Module, found: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Translate the names of a network's authors to timm's, by timm's own function for it, if it has one."""
    module = sys.modules[type(net).__module__]
    translate = next((getattr(module, name) for name in _FILTERS if hasattr(module, name)), None)
    if translate is None:
        return found
    takes_net = len(inspect.signature(translate).parameters) > 1
    try:
        result: dict[str, Tensor] = translate(dict(found), net) if takes_net else translate(dict(found))
    except Exception as error:  # a stranger's tensors can surprise it in any way
        raise TaggerError(
            f"{path}: its tensors cannot be those of a {type(net).__name__} ({first_line(error)}). "
            "Does the file belong to this backbone?"
        ) from error
    return {name: value for name, value in result.items() if isinstance(value, Tensor)}


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of all tensors from the header of a .safetensors file, and none of their values."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118, it is not a dict


def check_fits(network: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a network, on the meta device, whose tensors are not exactly those of a file.

    What a network computes for itself when it is built, such as the distances between all pairs of patches, is in no
    file; there may be only so much of it.
    """
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    if absent := [name for name in wanted if name not in shapes]:
        raise TaggerError(f"the file has no tensor {shown(absent[0])}, and {len(absent)} are missing in all.")
    if strange := [name for name in shapes if name not in wanted]:
        raise TaggerError(f"the file has a tensor {shown(strange[0])} that the network has no use for.")
    if wrong := [name for name in wanted if wanted[name] != shapes[name]]:
        raise TaggerError(
            f"tensor {shown(wrong[0])} has shape {shapes[wrong[0]]} in the file and {wanted[wrong[0]]} in the network."
        )
    held = sum(math.prod(shape) for shape in wanted.values())
    computed = sum(value.numel() for value in (*network.parameters(), *network.buffers())) - held
    if computed > MAX_COMPUTED_VALUES:
        raise TaggerError(
            f"the network needs {computed:,} values that are in no file; the most is {MAX_COMPUTED_VALUES:,}."
        )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a flat dict of tensors from .safetensors or a `weights_only` torch file.

    Wrappers ("state_dict", "model", …) are opened, and the prefixes that scripts put before names removed.
    """
    content = read_content(path)
    while wrapper := next((key for key in _WRAPPERS if isinstance(content.get(key), dict)), None):
        content = content[wrapper]
    if not content or not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()):
        raise TaggerError(f"{path}: contains no dictionary of named tensors. Save a model's state_dict() there.")
    for name, value in content.items():
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise TaggerError(
                f"{path}: tensor {shown(name)} claims {value.numel():,} values, more than the file holds."
            )
    found = {_PREFIXES.sub("", name): value for name, value in content.items()}
    if len(found) < len(content):
        raise TaggerError(
            f"{path}: holds several sets of weights under different prefixes (such as 'ema.' and 'model.'). Save one."
        )
    return found


def read_content(path: Path) -> dict[Any, Any]:
    """Read the dict that a .safetensors or `weights_only` torch file holds, whatever is in it besides tensors."""
    if not is_file(path):
        raise TaggerError(f"{path}: no such weights file. Give a .safetensors or .pth file, 'bundled' or 'hub'.")
    try:
        content: object = _read_safetensors(path) if path.suffix.lower() == ".safetensors" else _read_torch(path)
    except Exception as error:  # a stranger's file can fail in any way, and the cause is always the same
        raise TaggerError(
            f"{path}: cannot be read as weights ({first_line(error)}). Only .safetensors and torch files of plain "
            "tensors are loaded; a file with pickled objects is refused because it could run code."
        ) from error
    return content if isinstance(content, dict) else {}


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file as load_safetensors

    return load_safetensors(path)


def _read_torch(path: Path) -> object:
    return torch.load(path, map_location="cpu", weights_only=True)
