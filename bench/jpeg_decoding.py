"""Which JPEG decoder to use: Pillow as Tagloom uses it, simplejpeg, and torchvision.io.

    pip install simplejpeg
    python bench/jpeg_decoding.py PHOTOS [--rounds 7]

Each turns the bytes of a JPEG into the square that a network takes, uint8 (224, 224, 3), on one core; decoding only is
shown as well. PHOTOS is a folder of small JPEGs (256 px); 12-megapixel ones are made from them. Processor time counts,
so that a busy machine changes little; the sides take turns, and the best round of each counts.

Pillow and simplejpeg can decode at 1/2, 1/4 or 1/8 of the size ("draft"), torchvision cannot.
"""

import argparse
import io
import math
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from predicting import large_jpeg
from tagloom.data.images import open_image
from tagloom.data.transforms import decode_size, prepare
from tagloom.recipe.pictures import Preprocess

PREPROCESS = Preprocess(size=224)
SMALL_IMAGES, LARGE_IMAGES = 100, 4
Decoder = Callable[[bytes], Image.Image]


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("photos", type=Path)
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    paths = sorted(path for path in given.photos.iterdir() if path.suffix == ".jpg")[:SMALL_IMAGES]
    sets = {
        "256 px": [path.read_bytes() for path in paths],
        "12 megapixels": [large_jpeg(path) for path in paths[:LARGE_IMAGES]],
    }
    for name, files in sets.items():
        print(f"{name}, {sum(map(len, files)) / len(files) / 1000:.0f} kB each; milliseconds per image")
        measure(files, given.rounds)


def measure(files: list[bytes], rounds: int) -> None:
    """Time every decoder on some files, alone and with resizing."""
    decoders = available()
    best: dict[tuple[str, bool], float] = {}
    for _ in range(rounds):
        for name, decode in decoders.items():
            for whole in (False, True):
                started = time.process_time()
                for data in files:
                    image = decode(data)
                    if whole:
                        prepare(image, PREPROCESS)
                spent = 1000 * (time.process_time() - started) / len(files)
                best[name, whole] = min(best.get((name, whole), math.inf), spent)
    for name in decoders:
        ratio = best["Pillow, as in Tagloom", True] / best[name, True]
        print(f"  {name:<24} decode {best[name, False]:8.2f}  decode and resize {best[name, True]:8.2f}  x {ratio:.2f}")


def available() -> dict[str, Decoder]:
    """Give the decoders; those that are not installed are left out."""
    enough = decode_size(PREPROCESS)
    found: dict[str, Decoder] = {
        "Pillow, as in Tagloom": lambda data: open_image(data, at_least=enough),
        "Pillow, bare": lambda data: bare_pillow(data, enough),
    }
    try:
        import simplejpeg

        def simple(data: bytes) -> Image.Image:
            return Image.fromarray(simplejpeg.decode_jpeg(data, min_height=enough[1], min_width=enough[0]))

        found["simplejpeg"] = simple
    except ImportError:
        print("simplejpeg is not installed")
    try:
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        torch.set_num_threads(1)

        def torchvision(data: bytes) -> Image.Image:
            pixels = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
            return Image.fromarray(pixels.permute(1, 2, 0).numpy())

        found["torchvision.io"] = torchvision
    except ImportError:
        print("torchvision is not installed")
    return found


def bare_pillow(data: bytes, enough: tuple[int, int]) -> Image.Image:
    """Decode with Pillow without any of our checks."""
    image = Image.open(io.BytesIO(data))
    image.draft("RGB", enough)
    return image.convert("RGB")


if __name__ == "__main__":
    main()
