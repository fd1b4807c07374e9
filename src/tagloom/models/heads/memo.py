"""Remembering a result until one of the tensors that it was computed from changes."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T", bound=tuple[Tensor | None, ...])


class Memo(Generic[T]):
    """The last result of a function of tensors, computed again only when one of them has changed.

    A change is another storage or another version of it, so loading weights, moving them, optimiser steps and in-place
    edits are all noticed. Fused optimisers and writes through `.data` bypass PyTorch's version count: because of the
    former nothing is remembered across a pass that records gradients; after the latter call `clear`.

    While a graph is traced the function is simply run, since a compiler folds constants itself. Copies and pickles
    start empty.

    >>> weight, memo = torch.ones(1), Memo()
    >>> with torch.no_grad():
    ...     first = memo([weight], lambda: (weight * 2,))
    ...     second = memo([weight], lambda: (weight * 2,))
    ...     changed = memo([weight.add_(1)], lambda: (weight * 2,))
    >>> first is second, changed
    (True, (tensor([4.]),))
    """

    def __init__(self) -> None:
        self._entry: tuple[list[object], list[Tensor], T] | None = None

    def __call__(self, sources: Sequence[Tensor], compute: Callable[[], T]) -> T:
        """Give `compute()`, or its last result if none of its sources changed."""
        if torch.compiler.is_compiling():
            return compute()
        if torch.is_grad_enabled():
            self.clear()
            return compute()
        state = _state(sources)
        if state is None:
            return compute()
        entry = self._entry
        if entry is not None and entry[0] == state:
            return entry[2]
        result = compute()
        if all(type(value) is Tensor for value in result if value is not None):  # no fake tensor of a tracer
            # Holding the sources' storages prevents their addresses from being reused for other tensors.
            self._entry = (state, [source.detach() for source in sources], result)
        return result

    def clear(self) -> None:
        """Forget the result."""
        self._entry = None

    def __reduce__(self) -> tuple[type["Memo[T]"], tuple[()]]:
        return Memo, ()


def _state(sources: Sequence[Tensor]) -> list[object] | None:
    """Give what changes if a source or the precision of matmuls does; None if that cannot be found out."""
    device = sources[0].device.type
    try:
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        return [precision, *((source.data_ptr(), source._version) for source in sources)]
    except RuntimeError:  # on the meta device, inside torch.func, or of tensors made in inference mode
        return None
