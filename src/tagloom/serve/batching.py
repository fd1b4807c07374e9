"""Requests that arrive within a short time are computed together, in threads next to the event loop.

A queue is bounded: what does not fit is refused at once, so that nobody waits for an answer that comes too late.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from tagloom.serve.limits import busy

Item = TypeVar("Item")
Result = TypeVar("Result")

SETTLING = 0.2  # the share of the newest batch in the average time per item


class _Waiting(NamedTuple, Generic[Item, Result]):
    item: Item
    result: "asyncio.Future[Result]"


class Batcher(Generic[Item, Result]):
    """Collects items, and computes several at once.

    Args:
        work: Computes items, in a thread. It returns a result for each, in order; an exception among the results is
            the answer to that item alone.
        most: The most items at once.
        window: How long to wait for more items, in seconds, when a thread is free.
        waiting: The most items that wait.
        threads: How many batches are computed at a time.
        on_batch: Called with the size of each batch.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Sequence[Result | Exception]],
        *,
        most: int,
        window: float,
        waiting: int,
        threads: int = 1,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._work = work
        self._most = most
        self._window = window
        self._most_waiting = waiting
        self._threads = threads
        self._on_batch = on_batch
        self._queue: deque[_Waiting[Item, Result]] = deque()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tagloom-serve")
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._seconds_per_item = 0.05

    async def submit(self, items: Sequence[Item]) -> list[Result | Exception]:
        """Compute items, and wait for all of their results. If the caller is cancelled, what waits is dropped.

        Raises:
            Refusal: 429 if the queue has no room for them.
        """
        free = self._most_waiting - len(self._queue)
        if len(items) > free:
            raise busy(
                f"{len(self._queue)} pictures wait already, and there is room for {self._most_waiting}. Try again "
                "after the time in Retry-After.",
                len(self._queue) * self._seconds_per_item,
            )
        loop = asyncio.get_running_loop()
        waiting = [_Waiting[Item, Result](item, loop.create_future()) for item in items]
        self._queue.extend(waiting)
        self._start()
        try:
            return await asyncio.gather(*(one.result for one in waiting), return_exceptions=True)  # type: ignore[return-value]
        finally:
            if any(one.result.cancelled() for one in waiting):
                self._queue = deque(one for one in self._queue if not one.result.cancelled())

    async def close(self) -> None:
        """Finish what waits, and end the threads."""
        while self._queue or self._running:
            self._flush()
            await asyncio.wait(self._running)
        self._pool.shutdown()

    def _start(self) -> None:
        """Begin a batch if a thread is free: at once if it is full, or else when the window has passed."""
        if len(self._running) >= self._threads or not self._queue:
            return
        if len(self._queue) >= self._most:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._window, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and len(self._running) < self._threads:
            batch = [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]
            task = asyncio.get_running_loop().create_task(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._start()

    async def _run(self, batch: list[_Waiting[Item, Result]]) -> None:
        self._on_batch(len(batch))
        begun = time.monotonic()
        results: Sequence[Result | Exception]
        try:
            items = [one.item for one in batch]
            results = await asyncio.get_running_loop().run_in_executor(self._pool, self._work, items)
        except Exception as error:  # noqa: BLE001  it is the answer to all of them, and the server lives on
            results = [error] * len(batch)
        each = (time.monotonic() - begun) / len(batch)
        self._seconds_per_item += SETTLING * (each - self._seconds_per_item)
        for one, result in zip(batch, results, strict=True):
            if one.result.done():  # nobody waits for it any more
                continue
            if isinstance(result, Exception):
                one.result.set_exception(result)
            else:
                one.result.set_result(result)
