"""Many processes that train one tagger: what they tell each other.

Each process is a rank. All hold the same weights and walk through the same epochs; of every batch each takes its share.
A training knows its ranks as a `World`. Its one-process form does nothing, so the code that trains reads the same.

All ranks must ask the same things of their world in the same order: each answer is what all of them said. So whatever
decides about the course of a run, such as a stop, a metric or an error of the disk, is agreed on here first.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, overload

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from tagloom.errors import TagloomError
from tagloom.training.launched import is_launched, restarts
from tagloom.training.signals import Interrupted, StopRequest

T = TypeVar("T")
LOST_CODE = 75  # sysexits.h: a failure that passes when it is tried again
LONGEST_WAIT = timedelta(hours=2)  # for a rank that reads or writes while the others wait
VALUES_AT_ONCE = 1 << 24  # of gradients that are added up in one message: 64 MB


class LostProcessError(TagloomError):
    """Another process of this run has ended; whoever started them starts them all again."""

    exit_code = LOST_CODE


class World:
    """The ranks of a run: here, one process alone.

    Attributes:
        rank: This process, counted from 0.
        size: How many there are.
        restarts: How often all of them were started again after one was lost.
    """

    rank = 0
    size = 1
    restarts = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    @overload
    def share(self, items: NDArray[np.int64]) -> NDArray[np.int64]: ...
    @overload
    def share(self, items: Sequence[T]) -> Sequence[T]: ...
    def share(self, items: Any) -> Any:
        """Give this rank's share of some items. The shares of all ranks, in order, are the items.

        >>> [rank.share(range(5)) for rank in (Ranks(0, 2), Ranks(1, 2))]
        [range(0, 2), range(2, 5)]
        """
        return items[len(items) * self.rank // self.size : len(items) * (self.rank + 1) // self.size]

    def device_name(self, wanted: str) -> str:
        """Give the device of this rank, as `pick_device` takes it."""
        return wanted

    def gather(self, value: T) -> list[T]:
        """Give what every rank said, in order: plain data, as JSON has it."""
        return [value]

    def collect(self, array: NDArray[Any]) -> NDArray[Any]:
        """Join arrays (n, …) of all ranks in the first one, by rank. The others get none, (0, …)."""
        return array

    def total(self, number: int) -> int:
        """Add up the numbers of all ranks."""
        return number

    def largest(self, *numbers: int) -> tuple[int, ...]:
        """Give the largest of each number over the ranks."""
        return numbers

    def sum(self, terms: Mapping[str, float]) -> dict[str, float]:
        """Add up the terms of all ranks by name. A rank may lack some, or all."""
        sums: dict[str, float] = {}
        for said in self.gather(dict(terms)):
            for name, value in said.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def from_first(self, work: Callable[[], T]) -> T:
        """Let the first rank do something, and give the result, which is plain data, to all. All raise its error."""
        return work()

    def first_goes_first(self, work: Callable[[], T]) -> T:
        """Do something in every rank, in the others when the first one is done: they find what it left for them."""
        return work()

    def copy_from_first(self, module: nn.Module) -> None:
        """Give every rank the weights of the first one."""

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace the gradients of every rank by their sum. One that no rank has stays None."""

    def average_statistics(self, module: nn.Module, share: float) -> None:
        """Replace the running statistics of batch norms in training by their mean, weighted by `share`."""

    @contextmanager
    def leaving_together(self, stop: StopRequest) -> Iterator[None]:
        """Do a share of some work. If a rank was asked to stop meanwhile, all of them leave when all are done."""
        yield


ALONE = World()


class Ranks(World):
    """The ranks of a run: here, several processes.

    Args:
        rank: This process, counted from 0.
        size: How many there are.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.restarts = restarts()

    def device_name(self, wanted: str) -> str:
        """Give each rank of a machine a GPU of its own; without GPUs, the CPU."""
        if wanted == "cpu" or not torch.cuda.is_available():
            return "cpu" if wanted == "auto" else wanted
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", self.size)), torch.cuda.device_count()
        if here > gpus:
            raise TagloomError(
                f"{here} processes were started on this machine, which has {gpus} GPUs. Start one per GPU, or compute "
                "on the CPUs with --device cpu."
            )
        return f"cuda:{os.environ.get('LOCAL_RANK', self.rank)}" if wanted in ("auto", "cuda") else wanted

    def gather(self, value: T) -> list[T]:
        """Exchange lengths, then the texts, each padded to the longest."""
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with _listening():
            dist.all_gather(lengths, torch.tensor([len(text)]))
            longest = max(int(length) for length in lengths)
            padded = torch.from_numpy(np.pad(text, (0, longest - len(text))))
            texts = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
            dist.all_gather(texts, padded)
        pairs = zip(texts, lengths, strict=True)
        return [json.loads(said[: int(length)].numpy().tobytes()) for said, length in pairs]

    def collect(self, array: NDArray[Any]) -> NDArray[Any]:
        """Send arrays to the first rank, each padded to the longest."""
        counts = self.gather(len(array))
        padded = torch.from_numpy(np.resize(array, (max(counts), *array.shape[1:])))
        parts = [torch.empty_like(padded) for _ in counts] if self.is_first else None
        with _listening():
            dist.gather(padded, parts)
        if parts is None:
            return array[:0]
        return np.concatenate([part[:count].numpy() for part, count in zip(parts, counts, strict=True)])

    def total(self, number: int) -> int:
        """Add up the numbers of all ranks."""
        return int(_reduced(torch.tensor(number), dist.ReduceOp.SUM))

    def largest(self, *numbers: int) -> tuple[int, ...]:
        """Give the largest of each number over the ranks."""
        return tuple(_reduced(torch.tensor(numbers), dist.ReduceOp.MAX).tolist())

    def from_first(self, work: Callable[[], T]) -> T:
        """Let the first rank work, and tell the others how it went."""
        if not self.is_first:
            said: dict[str, Any] = self.gather({})[0]
            if "signal" in said:
                raise Interrupted(said["signal"])
            if "error" in said:
                raise TagloomError(said["error"])
            result: T = said["result"]
            return result
        try:
            result = work()
        except Interrupted as interrupted:
            self.gather({"signal": interrupted.exit_code - 128})
            raise
        except (TagloomError, OSError) as error:
            self.gather({"error": str(error)})
            raise
        self.gather({"result": result})
        return result

    def first_goes_first(self, work: Callable[[], T]) -> T:
        """Let the first rank work, then the others."""
        made: list[T] = []
        self.from_first(lambda: made.append(work()))
        return made[0] if made else work()

    def copy_from_first(self, module: nn.Module) -> None:
        """Send parameters and buffers, one after another."""
        with _listening(), torch.no_grad():
            for tensor in module.state_dict().values():
                whole = tensor.contiguous()  # state_dict shares its memory, unless it had to be copied here
                dist.broadcast(whole, src=0)
                if whole is not tensor:
                    tensor.copy_(whole)

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Add up gradients in a few large messages. Each says of every parameter whether this rank has a gradient."""
        for some in _by_size(parameters):
            flags = torch.tensor([float(value.grad is not None) for value in some], device=some[0].device)
            grads = [torch.zeros_like(value) if value.grad is None else value.grad for value in some]
            sums = _reduced(torch.cat([flags, *(grad.flatten().float() for grad in grads)]), dist.ReduceOp.SUM)
            found, rest = sums[: len(some)].tolist(), sums[len(some) :]
            parts = torch.split(rest, [value.numel() for value in some])
            for value, part, ranks in zip(some, parts, found, strict=True):
                value.grad = part.view_as(value).to(value.dtype) if ranks else None

    def average_statistics(self, module: nn.Module, share: float) -> None:
        """Average means and variances over the ranks. Each has normalised its share of the batch with its own."""
        for part in module.modules():
            if isinstance(part, _BatchNorm) and part.training:
                for statistic in (part.running_mean, part.running_var):
                    if statistic is not None:
                        statistic.copy_(_reduced(statistic * share, dist.ReduceOp.SUM))

    @contextmanager
    def leaving_together(self, stop: StopRequest) -> Iterator[None]:
        """Hold a rank that was asked to stop until all are done with their share, and then stop all."""
        try:
            yield
        except Interrupted:
            if not stop.requested:
                raise
        (asked,) = self.largest(stop.signal_number or 0)
        if asked:
            stop.signal_number = asked
            stop.leave_if_requested()


@contextmanager
def join_world(device: str = "auto") -> Iterator[World]:
    """Give the world of this process: it alone, or the ranks that torchrun or `tagloom … --processes` started.

    Args:
        device: Where the ranks compute; GPUs exchange gradients by nccl, and everything else goes by gloo.
    """
    if not is_launched():
        yield ALONE
        return
    begun = dist.is_initialized()  # by a program that calls `tagloom.train` among other things
    if not begun:
        _find_each_other("cpu:gloo,cuda:nccl" if device != "cpu" and torch.cuda.is_available() else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        if not begun:
            dist.destroy_process_group()


def _find_each_other(backend: str) -> None:
    """Connect the ranks by what torchrun left in the environment.

    Its store outlives the ranks, with the addresses of those that were lost: each start uses names of its own.
    """
    store, rank, size = next(rendezvous("env://", timeout=LONGEST_WAIT))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store = PrefixStore(f"start-{restarts()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LONGEST_WAIT)


def _reduced(tensor: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
    with _listening():
        dist.all_reduce(tensor, how)
    return tensor


@contextmanager
def _listening() -> Iterator[None]:
    """Turn torch's error about a connection that is gone into ours."""
    try:
        yield
    except RuntimeError as error:
        raise LostProcessError("another process of this run has ended, so this one ends too.") from error


def _by_size(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Give parameters in groups of at most `VALUES_AT_ONCE` values, or of one that has more."""
    some: list[nn.Parameter] = []
    for value in parameters:
        if some and sum(map(torch.numel, [*some, value])) > VALUES_AT_ONCE:
            yield some
            some = []
        some.append(value)
    if some:
        yield some
