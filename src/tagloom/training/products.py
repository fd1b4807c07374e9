"""Faster matrix products where MKL holds a processor back.

torch multiplies float32 matrices by MKL, which uses at most AVX2 on AMD's processors. oneDNN, which torch has as well,
uses AVX-512 there and is faster, also in float32 (bench/training_epoch.py). torch uses oneDNN for convolutions, and a
linear map of tokens is a convolution of size 1. The numbers are the same up to the order in which products are summed.
"""

import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor
from torch.overrides import TorchFunctionMode

SMALLEST = 1 << 22  # multiply-adds of one product; below this, calling a convolution costs more than it gains


def fast_products(device: torch.device) -> AbstractContextManager[object]:
    """Give a context in which linear maps of tokens are as fast as this machine allows."""
    return ConvolvedProducts() if device.type == "cpu" and mkl_holds_back() else nullcontext()


class ConvolvedProducts(TorchFunctionMode):
    """A context that computes linear maps of tokens (B, S, C) as convolutions, forward and backward."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace `linear` where that pays; call everything else as it is."""
        if func is F.linear and not kwargs and _pays(args[0], args[1]):
            return _convolved(*args)
        return func(*args, **(kwargs or {}))


@cache
def mkl_holds_back() -> bool:
    """Say whether this is a processor with AVX-512 on which MKL does not use it, and oneDNN is there."""
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_both and torch.backends.cpu.get_cpu_capability() == "AVX512" and "AuthenticAMD" in _processor()


def _processor() -> str:
    """Say who made the processor."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")[:200]
    except OSError:  # not Linux
        return platform.processor()


def _pays(tokens: Tensor, weight: Tensor) -> bool:
    # torch gives a batch of one to MKL in any case.
    tall = tokens.ndim == 3 and tokens.shape[0] > 1 and tokens.shape[1] > 1
    return tall and tokens.dtype == weight.dtype == torch.float32 and tokens.numel() * weight.shape[0] >= SMALLEST


def _convolved(tokens: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Map tokens (B, S, C) by weight (D, C) and bias (D,) to (B, S, D)."""
    batch, count, channels = tokens.shape
    # A picture of S x 1 pixels, channels last: what oneDNN reads and writes without a copy.
    pixels = tokens.contiguous().view(batch, count, 1, channels).permute(0, 3, 1, 2)
    mapped = F.conv2d(pixels, weight.view(*weight.shape, 1, 1), bias)
    return mapped.permute(0, 2, 3, 1).reshape(batch, count, weight.shape[0])
