"""Pictures to quantise and to compare by."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.data.reading import Source, read_pictures
from tagloom.data.scenes import draw_scene
from tagloom.errors import DataError, ImageError
from tagloom.predict.inputs import count_inputs, find_inputs
from tagloom.recipe.pictures import Preprocess

MOST_PICTURES = 256
FEWEST_PICTURES = 16
COMPARED_SHARE = 4  # every so manieth picture is kept for comparing
DRAWN_PICTURES = 8


def read_some(places: Sequence[Path], preprocess: Preprocess) -> NDArray[np.uint8]:
    """Read some hundred pictures of all places, spread evenly over them: (n, size, size, 3)."""
    step = max(1, count_inputs(places) // MOST_PICTURES)

    def sources() -> Iterator[Source]:
        for found in islice(find_inputs(places), 0, MOST_PICTURES * step, step):
            image = found.read()
            if not isinstance(image, ImageError):
                yield image

    batches = [batch.pixels for batch in read_pictures(sources(), preprocess, threads=usable_cores())]
    pictures = np.concatenate(batches) if batches else np.zeros((0,), np.uint8)
    if len(pictures) < FEWEST_PICTURES:
        raise DataError(
            f"{', '.join(map(str, places))}: {len(pictures)} pictures can be read, but eight bits need at least "
            f"{FEWEST_PICTURES}, better some hundred, of the kind that will be tagged. Name more with --calibrate."
        )
    return pictures


def split(pictures: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Split pictures into those to quantise by, and others to compare by."""
    compared = np.arange(len(pictures)) % COMPARED_SHARE == 0
    return pictures[~compared], pictures[compared]


def drawn_pictures() -> list[NDArray[np.uint8]]:
    """Give drawn pictures and noise, for comparisons that need no photographs."""
    drawn = [np.asarray(draw_scene(seed=0, index=index)[0]) for index in range(DRAWN_PICTURES)]
    return drawn + list(np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8))
