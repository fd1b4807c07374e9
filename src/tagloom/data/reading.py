"""Reading many pictures in threads, and computing with them: next to the reading, or in the same threads."""

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tagloom.data.images import open_image
from tagloom.data.packed.images import PackedImage
from tagloom.data.transforms import augment, decode_size, prepare
from tagloom.errors import DataError, ImageError
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.wording import listed_lines


class Encoded(NamedTuple):
    """The bytes of an image that is not a file of its own, and its name for messages: `photos.zip/a.jpg`."""

    name: str
    data: bytes


Source = str | os.PathLike[str] | PackedImage | bytes | Encoded | Image.Image | NDArray[np.uint8]
Pictures = NDArray[np.uint8]
Stop = Callable[[Collection[int]], None]
"""Called with the identities of threads whose work is no longer wanted."""
S = TypeVar("S")
R = TypeVar("R")

MAX_BATCH_PIXELS = 2**23
"""Pixels in a batch: 32 pictures of 512 x 512. Larger pictures come in smaller batches."""
BATCH_PICTURES = 32
STREAM_PICTURES = 1
"""Pictures per call where every core computes by itself: one stays in the core's own cache from layer to layer, which
makes it as fast as any more, and its result does not depend on what stands beside it."""
PICTURES_AHEAD = 8  # per core, so that one slow image does not make the other cores wait
STOP_SECONDS = 0.2
MAX_HELD_BYTES = 2**28  # of encoded images that wait for a thread


@dataclass(frozen=True)
class PictureBatch:
    """The pictures that could be read, their indices in the input, and the errors of those that could not.

    Attributes:
        indices: Index of each picture in the input, ascending.
        pixels: uint8 (len(indices), size, size, 3).
        errors: Index of each unreadable picture, and what is wrong with it.
    """

    indices: list[int]
    pixels: NDArray[np.uint8]
    errors: list[tuple[int, ImageError]]


class Computed(NamedTuple, Generic[R]):
    """What was computed for a batch: the `PictureBatch` without its pixels.

    Attributes:
        indices: Index of each picture in the input, ascending.
        result: What the computation gave for them; None if none of the pictures could be read.
        errors: Index of each unreadable picture, and what is wrong with it.
    """

    indices: list[int]
    result: R | None
    errors: list[tuple[int, ImageError]]


def compute_on_pictures(
    sources: Iterable[Source | ImageError],
    preprocess: Preprocess,
    compute: Callable[[Pictures], R],
    *,
    streams: bool,
    threads: int,
    stop: Stop = lambda threads: None,
    augmentation: Augment | None = None,
    draw: Callable[[int], np.random.Generator] = np.random.default_rng,
) -> Iterator[Computed[R]]:
    """Read pictures and compute with them, in order: the one way in which features, scores and maps are made.

    Args:
        sources: See `work_on_pictures`.
        preprocess: Size and fit.
        compute: Takes pictures, uint8 (B, size, size, 3).
        streams: Whether `compute` uses one core per call. Then it is called in all threads at once, each with the
            picture that it has read. Otherwise `compute` uses all cores, or another device: it gets larger batches,
            one after the other, and the threads only read.
        threads: Number of threads.
        stop: See `work_on_pictures`.
        augmentation: See `work_on_pictures`.
        draw: See `work_on_pictures`.
    """

    def work(batch: PictureBatch) -> Computed[R]:
        return Computed(batch.indices, compute(batch.pixels) if batch.indices else None, batch.errors)

    if streams:
        yield from work_on_pictures(
            sources,
            preprocess,
            work,
            batch_size=pictures_at_once(preprocess, streams=True),
            threads=threads,
            ahead=PICTURES_AHEAD * threads,
            stop=stop,
            augmentation=augmentation,
            draw=draw,
        )
        return
    for batch in work_on_pictures(
        sources,
        preprocess,
        lambda batch: batch,
        batch_size=pictures_at_once(preprocess, streams=False),
        threads=threads,
        augmentation=augmentation,
        draw=draw,
    ):
        yield work(batch)


def pictures_at_once(preprocess: Preprocess, *, streams: bool) -> int:
    """Give the number of pictures that `compute_on_pictures` computes with at once."""
    return _within_limit(STREAM_PICTURES if streams else BATCH_PICTURES, preprocess)


def read_pictures(
    sources: Iterable[Source], preprocess: Preprocess, *, batch_size: int = BATCH_PICTURES, threads: int = 2
) -> Iterator[PictureBatch]:
    """Decode and resize pictures in the order given, a batch at a time and a few batches ahead.

    Args:
        sources: Paths, packed images, encoded bytes, PIL images or uint8 arrays (H, W, 3); may be a generator.
        preprocess: Size and fit.
        batch_size: Pictures per batch, unreadable ones included; fewer if they are large (`MAX_BATCH_PIXELS`).
        threads: Number of decoding threads; each reads a batch. Pillow releases the interpreter lock, so threads do
            run in parallel.
    """
    return work_on_pictures(sources, preprocess, lambda batch: batch, batch_size=batch_size, threads=threads)


def work_on_pictures(
    sources: Iterable[Source | ImageError],
    preprocess: Preprocess,
    work: Callable[[PictureBatch], R],
    *,
    batch_size: int = BATCH_PICTURES,
    threads: int = 2,
    ahead: int | None = None,
    stop: Stop = lambda threads: None,
    augmentation: Augment | None = None,
    draw: Callable[[int], np.random.Generator] = np.random.default_rng,
) -> Iterator[R]:
    """Read pictures as `read_pictures` does, and work on each batch in the thread that read it. Yield results in order.

    Threads that each read and compute keep all cores busy. One thread that computes on all cores next to others that
    read loses a quarter of the time to waiting.

    Args:
        sources: See `read_pictures`. An `ImageError` stands for a picture that is known to be unreadable.
        preprocess: Size and fit.
        work: Called with each batch.
        batch_size: Pictures per batch.
        threads: Number of threads that read and work.
        ahead: How many batches are begun before the first is given; None for as many as there are threads. Encoded
            images that wait count as well: no more are taken while they hold `MAX_HELD_BYTES`.
        stop: Called if the caller leaves early, before waiting for the batches that are being worked on.
            It should make the work of these threads end soon.
        augmentation: How to augment each picture; None for no augmentation.
        draw: Gives the random generator of the picture with this index, for the augmentation.
    """
    enough = decode_size(preprocess, augmentation)

    def read(index: int, source: Source | ImageError) -> Pictures | ImageError:
        if isinstance(source, ImageError):
            return source
        try:
            image = open_image(to_image(source), at_least=enough)
        except ImageError as error:
            return ImageError(source.name, error.reason, error.finding) if isinstance(source, Encoded) else error
        if augmentation is None:
            return prepare(image, preprocess)
        return augment(image, preprocess, augmentation, draw(index))

    workers: set[int] = set()

    def do(first: int, chunk: list[Source | ImageError]) -> R:
        workers.add(threading.get_ident())
        results = [(index, read(index, source)) for index, source in enumerate(chunk, first)]
        good = [(index, pixels) for index, pixels in results if isinstance(pixels, np.ndarray)]
        return work(
            PictureBatch(
                indices=[index for index, _ in good],
                pixels=_stack([pixels for _, pixels in good], preprocess.size),
                errors=[(index, error) for index, error in results if isinstance(error, ImageError)],
            )
        )

    threads = max(1, threads)
    most = threads if ahead is None else ahead
    with ThreadPoolExecutor(threads, thread_name_prefix="tagloom-read") as pool:
        waiting: deque[tuple[Future[R], int]] = deque()  # and the encoded bytes that each holds
        batches = _chunks(sources, _within_limit(batch_size, preprocess))
        first = held = 0
        try:
            while True:
                while len(waiting) <= most and held <= MAX_HELD_BYTES and (chunk := next(batches, None)):
                    size = sum(len(source.data) for source in chunk if isinstance(source, Encoded))
                    waiting.append((pool.submit(do, first, chunk), size))
                    first += len(chunk)
                    held += size
                if not waiting:
                    return
                done, size = waiting[0]
                yield done.result()
                waiting.popleft()
                held -= size
        finally:
            begun = [future for future, _ in waiting if not future.cancel()]
            while begun:
                stop(workers)  # more than once: a thread may have been about to begin
                begun = list(wait(begun, timeout=STOP_SECONDS).not_done)


def check_broken(
    broken: list[tuple[int, ImageError]], count: int, allowed: float, source: str, to_allow_more: str
) -> None:
    """Refuse to continue if too many images, or all of them, cannot be read: then something else is wrong.

    Args:
        broken: Rows of the table whose images cannot be read, and why.
        count: Number of rows of the table.
        allowed: The share of rows that may be unreadable.
        source: Names the table.
        to_allow_more: What the user can write to allow more.
    """
    if len(broken) <= allowed * count and (len(broken) < count or not broken):
        return
    raise DataError(
        f"{source}: {len(broken)} of {count} images cannot be read, more than the allowed {allowed:.0%}:\n"
        f"{listed_lines((error for _, error in broken), most=5)}\n"
        f"List them all with 'tagloom check'. Fix the paths or files, or allow more with {to_allow_more}"
    )


def to_image(source: Source) -> str | os.PathLike[str] | PackedImage | bytes | Image.Image:
    """Turn an array of pixels into an image, and take the bytes out of their envelope."""
    if isinstance(source, Encoded):
        return source.data
    if not isinstance(source, np.ndarray):
        return source
    if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3 or 0 in source.shape:
        found = f"is {source.dtype} of shape {source.shape}; it must be uint8 of shape (height, width, 3)."
        raise ImageError("an array", "format", found)
    return Image.fromarray(source)


def _within_limit(batch_size: int, preprocess: Preprocess) -> int:
    return min(batch_size, max(1, MAX_BATCH_PIXELS // preprocess.size**2))


def _chunks(sources: Iterable[S], size: int) -> Iterator[list[S]]:
    stream = iter(sources)
    while chunk := list(islice(stream, size)):
        yield chunk


def _stack(pictures: list[NDArray[np.uint8]], size: int) -> NDArray[np.uint8]:
    if len(pictures) == 1:
        return pictures[0][None]  # no copy
    return np.stack(pictures) if pictures else np.zeros((0, size, size, 3), np.uint8)
