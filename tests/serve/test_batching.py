"""Queues: together within a window, bounded, and one item's fault is no other's."""

import asyncio
import threading

import pytest

from tagloom.serve.batching import Batcher
from tagloom.serve.limits import Refusal


def batcher(work, **options):
    return Batcher(work, **({"most": 4, "window": 0.01, "waiting": 8} | options))


def test_results_come_back_in_order_and_in_batches_of_at_most_the_given_size():
    sizes = []

    def double(items):
        sizes.append(len(items))
        return [2 * item for item in items]

    async def run():
        queue = batcher(double, on_batch=lambda size: None)
        answers = await asyncio.gather(*(queue.submit([number]) for number in range(8)))
        await queue.close()
        return answers

    assert asyncio.run(run()) == [[2 * number] for number in range(8)]
    assert sizes == [4, 4]


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back():
    go = threading.Event()

    def wait(items):
        assert go.wait(20)
        return items

    async def run():
        queue = batcher(wait, most=1, waiting=3)
        first = asyncio.ensure_future(queue.submit([0]))
        while not queue._running:
            await asyncio.sleep(0.01)
        others = [asyncio.ensure_future(queue.submit([number])) for number in (1, 2, 3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refusal) as refused:
            await queue.submit([4])
        go.set()
        assert await asyncio.gather(first, *others) == [[0], [1], [2], [3]]
        await queue.close()
        return refused.value

    refusal = asyncio.run(run())
    assert refusal.code == 429
    assert int(refusal.headers["Retry-After"]) >= 1


def test_what_nobody_waits_for_is_not_computed():
    go, seen = threading.Event(), []

    def wait(items):
        seen.extend(items)
        assert go.wait(20)
        return items

    async def run():
        queue = batcher(wait, most=1)
        first = asyncio.ensure_future(queue.submit(["first"]))
        while not seen:
            await asyncio.sleep(0.01)
        left = asyncio.ensure_future(queue.submit(["left"]))
        last = asyncio.ensure_future(queue.submit(["last"]))
        await asyncio.sleep(0.05)
        left.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, last)
        await queue.close()

    asyncio.run(run())
    assert seen == ["first", "last"]


def test_a_fault_of_one_item_is_the_answer_to_it_alone_and_a_fault_of_the_work_to_all():
    def divide(items):
        if "all" in items:
            raise RuntimeError("broken")
        return [ValueError("zero") if item == 0 else 1 / item for item in items]

    async def run():
        queue = batcher(divide)
        some = await queue.submit([1, 0, 2])
        everything = await queue.submit(["all", 1])
        again = await queue.submit([4])
        await queue.close()
        return some, everything, again

    some, everything, again = asyncio.run(run())
    assert (some[0], some[2]) == (1, 0.5)
    assert isinstance(some[1], ValueError)
    assert all(isinstance(answer, RuntimeError) for answer in everything)
    assert again == [0.25], "the queue lives on"


def test_closing_finishes_what_waits():
    async def run():
        queue = batcher(lambda items: [item + 1 for item in items], most=1, window=5)
        waiting = asyncio.ensure_future(asyncio.gather(*(queue.submit([number]) for number in range(3))))
        await asyncio.sleep(0.01)
        await queue.close()
        return await waiting

    assert asyncio.run(run()) == [[1], [2], [3]]
