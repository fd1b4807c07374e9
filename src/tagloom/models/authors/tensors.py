"""The tensors of a checkpoint, each taken once under its authors' name."""

from pathlib import Path

import torch
from torch import Tensor

from tagloom.errors import TaggerError
from tagloom.wording import listed, shown

_IGNORED = ("num_batches_tracked",)  # nothing reads it


class Tensors:
    """The tensors of a checkpoint. What is taken is checked, and what is left at the end is an error.

    Args:
        found: By name.
        path: The file, for messages.
    """

    def __init__(self, found: dict[str, Tensor], path: Path) -> None:
        self._left = {name: value for name, value in found.items() if not name.endswith(_IGNORED)}
        self.path = path

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def shape(self, name: str, dimensions: int) -> tuple[int, ...]:
        """Give the shape of a tensor that has so many dimensions."""
        value = self._found(name)
        if value.ndim != dimensions or 0 in value.shape:
            raise TaggerError(
                f"{self.path}: {shown(name)} has shape {tuple(value.shape)}; expected {dimensions} dimensions."
            )
        return tuple(value.shape)

    def take(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of exactly this shape, in float32."""
        value = self._found(name)
        if tuple(value.shape) != shape:
            raise TaggerError(f"{self.path}: {shown(name)} has shape {tuple(value.shape)}; expected {shape}.")
        if not value.is_floating_point() or not bool(torch.isfinite(value).all()):
            raise TaggerError(f"{self.path}: {shown(name)} holds values that are no finite numbers.")
        del self._left[name]
        return value.float()

    def take_under(self, prefix: str) -> dict[str, Tensor]:
        """Take all tensors whose names begin with a prefix, and give them without it."""
        names = [name for name in self._left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._left.pop(name) for name in names}

    def count(self, prefix: str) -> int:
        """Count the layers 0, 1, … that are numbered right after a prefix."""
        numbers = {name.removeprefix(prefix).split(".")[0] for name in self._left if name.startswith(prefix)}
        if numbers != {str(number) for number in range(len(numbers))}:
            raise TaggerError(f"{self.path}: the layers under {shown(prefix)} are not numbered from 0 without a gap.")
        return len(numbers)

    def check_all_taken(self) -> None:
        """Refuse a file with tensors that have no place."""
        refuse_strange(list(self._left), self.path)

    def _found(self, name: str) -> Tensor:
        if name not in self._left:
            raise TaggerError(
                f"{self.path}: has no tensor {shown(name)}, so it is no checkpoint of this kind. "
                f"It has: {listed([shown(known) for known in self._left], 5)}."
            )
        return self._left[name]


def refuse_strange(names: list[str], path: Path) -> None:
    """List tensors that have no place, if there are any."""
    if names:
        raise TaggerError(
            f"{path}: {len(names)} tensors have no place in this head and backbone: "
            f"{listed([shown(name) for name in names], 5)}."
        )


def attention(tensors: Tensors, theirs: str, ours: str, width: int) -> dict[str, Tensor]:
    """Take a `torch.nn.MultiheadAttention`, which keeps queries, keys and values in one matrix."""
    weight = tensors.take(f"{theirs}.in_proj_weight", 3 * width, width)
    bias = tensors.take(f"{theirs}.in_proj_bias", 3 * width)
    return {
        f"{ours}.query.weight": weight[:width],
        f"{ours}.query.bias": bias[:width],
        f"{ours}.key_value.weight": weight[width:],
        f"{ours}.key_value.bias": bias[width:],
        **linear(tensors, f"{theirs}.out_proj", f"{ours}.out", width, width),
    }


def feed_forward(tensors: Tensors, theirs: str, ours: str, width: int, norm_name: str) -> dict[str, Tensor]:
    """Take the two linear maps of a layer, and the norm after them."""
    hidden = tensors.shape(f"{theirs}.linear1.weight", 2)[0]
    return {
        **linear(tensors, f"{theirs}.linear1", f"{ours}.expand", hidden, width),
        **linear(tensors, f"{theirs}.linear2", f"{ours}.contract", width, hidden),
        **norm(tensors, f"{theirs}.{norm_name}", f"{ours}.norm", width),
    }


def norm(tensors: Tensors, theirs: str, ours: str, width: int) -> dict[str, Tensor]:
    """Take a layer norm."""
    return {f"{ours}.{leaf}": tensors.take(f"{theirs}.{leaf}", width) for leaf in ("weight", "bias")}


def linear(tensors: Tensors, theirs: str, ours: str, width_out: int, width_in: int) -> dict[str, Tensor]:
    """Take a linear map."""
    return {
        f"{ours}.weight": tensors.take(f"{theirs}.weight", width_out, width_in),
        f"{ours}.bias": tensors.take(f"{theirs}.bias", width_out),
    }
