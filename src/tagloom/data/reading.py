"""Reading many pictures: decoding and resizing in threads, ahead of the computation that uses them."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tagloom.data.images import open_image
from tagloom.data.transforms import augment, decode_size, prepare
from tagloom.errors import DataError, ImageError
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.wording import listed_lines

Source = str | os.PathLike[str] | bytes | Image.Image | NDArray[np.uint8]
S = TypeVar("S", bound=Source)
R = TypeVar("R")

MAX_BATCH_PIXELS = 2**23
"""Pixels in a batch: 32 pictures of 512 x 512. Larger pictures come in smaller batches."""


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


def read_pictures(
    sources: Iterable[Source], preprocess: Preprocess, *, batch_size: int = 32, threads: int = 2
) -> Iterator[PictureBatch]:
    """Decode and resize pictures in the order given, a batch at a time and a few batches ahead.

    Args:
        sources: Paths, encoded bytes, PIL images or uint8 arrays (H, W, 3); may be a generator.
        preprocess: Size and fit.
        batch_size: Pictures per batch, unreadable ones included; fewer if they are large (`MAX_BATCH_PIXELS`).
        threads: Number of decoding threads; each reads a batch. Pillow releases the interpreter lock, so threads do
            run in parallel.
    """
    return work_on_pictures(sources, preprocess, lambda batch: batch, batch_size=batch_size, threads=threads)


def work_on_pictures(
    sources: Iterable[Source],
    preprocess: Preprocess,
    work: Callable[[PictureBatch], R],
    *,
    batch_size: int = 32,
    threads: int = 2,
    augmentation: Augment | None = None,
    draw: Callable[[int], np.random.Generator] = np.random.default_rng,
) -> Iterator[R]:
    """Read pictures as `read_pictures` does, and work on each batch in the thread that read it. Yield results in order.

    Threads that each read and compute keep all cores busy. One thread that computes on all cores next to others that
    read loses a quarter of the time to waiting.

    Args:
        sources: See `read_pictures`.
        preprocess: Size and fit.
        work: Called with each batch.
        batch_size: Pictures per batch.
        threads: Number of threads that read and work.
        augmentation: How to augment each picture; None for no augmentation.
        draw: Gives the random generator of the picture with this index, for the augmentation.
    """
    enough = decode_size(preprocess, augmentation)

    def read(index: int, source: Source) -> NDArray[np.uint8] | ImageError:
        try:
            image = open_image(_picture(source), at_least=enough)
        except ImageError as error:
            return error
        if augmentation is None:
            return prepare(image, preprocess)
        return augment(image, preprocess, augmentation, draw(index))

    def do(first: int, chunk: list[Source]) -> R:
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
    with ThreadPoolExecutor(threads, thread_name_prefix="tagloom-read") as pool:
        waiting: deque[Future[R]] = deque()
        batches = _chunks(sources, min(batch_size, max(1, MAX_BATCH_PIXELS // preprocess.size**2)))
        first = 0
        try:
            while True:
                while len(waiting) <= threads and (chunk := next(batches, None)):
                    waiting.append(pool.submit(do, first, chunk))
                    first += len(chunk)
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


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


def _picture(source: Source) -> str | os.PathLike[str] | bytes | Image.Image:
    """Turn an array of pixels into an image."""
    if not isinstance(source, np.ndarray):
        return source
    if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3 or 0 in source.shape:
        found = f"is {source.dtype} of shape {source.shape}; it must be uint8 of shape (height, width, 3)."
        raise ImageError("an array", "format", found)
    return Image.fromarray(source)


def _chunks(sources: Iterable[S], size: int) -> Iterator[list[S]]:
    stream = iter(sources)
    while chunk := list(islice(stream, size)):
        yield chunk


def _stack(pictures: list[NDArray[np.uint8]], size: int) -> NDArray[np.uint8]:
    return np.stack(pictures) if pictures else np.zeros((0, size, size, 3), np.uint8)
