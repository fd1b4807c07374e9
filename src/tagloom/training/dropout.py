"""Dropout without waiting for random numbers.

torch draws a random number per value, which takes as long as a sixth of all products of a small head. Sixteen bits are
enough to decide on one value, so four are decided by one number of torch's own generator. The share that is dropped is
rounded to 1/65536, and what is kept is scaled by the rounded share, so its mean stays what it was.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor
from torch.overrides import TorchFunctionMode

LEVELS = 1 << 16
SMALLEST = 1 << 14  # values; below this, torch's own dropout is as quick


def quick_dropout(device: torch.device) -> AbstractContextManager[object]:
    """Give a context in which dropout is quick; a GPU draws its numbers fast enough itself."""
    return QuickDropout() if device.type == "cpu" else nullcontext()


class QuickDropout(TorchFunctionMode):
    """A context that computes `F.dropout` of large tensors with masks from `kept`."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace `dropout` where that pays; call everything else as it is."""
        if func is F.dropout:
            return _dropout(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _dropout(values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or inplace or not 0 < p < 1 or values.dtype != torch.float32 or values.numel() < SMALLEST:
        return F.dropout(values, p, training, inplace)
    return values * kept(values.shape, p)


def kept(shape: Sequence[int], p: float) -> Tensor:
    """Draw a mask, float32: 0 with probability p, else the factor that keeps the mean.

    >>> _ = torch.manual_seed(0)
    >>> mask = kept((400, 500), 0.25)
    >>> sorted(set(mask.flatten().tolist()))
    [0.0, 1.3333333730697632]
    >>> round(float((mask == 0).float().mean()), 2)
    0.25
    """
    count = torch.Size(shape).numel()
    dropped = min(max(round(p * LEVELS), 1), LEVELS - 1)
    numbers = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    levels = numbers.view(torch.int16)[:count].view(*shape)  # uniform from -32768 to 32767
    return (levels >= dropped - LEVELS // 2) * (LEVELS / (LEVELS - dropped))
