"""Running a tagger's network on images, to look inside its head."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tagloom.cores import usable_cores
from tagloom.data.packed.images import ImageFile
from tagloom.data.reading import read_pictures
from tagloom.errors import DataError, ImageError
from tagloom.progress import Progress, no_progress
from tagloom.tagger.spec import TaggerSpec

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from tagloom.models.network import TaggerNetwork


def summaries(
    network: "TaggerNetwork",
    spec: TaggerSpec,
    pictures: Sequence[ImageFile],
    device: "torch.device",
    broken: list[ImageError],
    progress: Progress = no_progress,
) -> Iterator[tuple[list[int], tuple["Tensor", ...]]]:
    """Give the head's summaries, which `classify` takes, batch by batch with the images' indices; without gradients.

    Args:
        network: The tagger's network, on `device`.
        spec: What its folder says.
        pictures: Image files.
        device: Where it runs.
        broken: Gets the errors of images that cannot be read. If no image can be read, that is a `DataError`.
        progress: Called with images done and images to do.
    """
    import torch

    done = 0
    for batch in read_pictures(pictures, spec.preprocess, threads=usable_cores()):
        broken += [error for _, error in batch.errors]
        if batch.indices:
            with torch.inference_mode():
                yield batch.indices, network.summarise(torch.from_numpy(batch.pixels).to(device))
            done += len(batch.indices)
        progress(done + len(broken), len(pictures))
    if not done:
        first = f": {broken[0]}" if broken else ""
        raise DataError(f"none of {len(pictures)} images could be read{first}")
