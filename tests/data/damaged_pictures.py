"""Decodes many damaged pictures and prints what happened. A process of its own, so that its memory can be measured.

python tests/data/damaged_pictures.py JPEG 5000
"""

import io
import json
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from mutations import mutate, with_checksums
from PIL import Image

from tagloom.data.images import open_image
from tagloom.data.reading import read_pictures
from tagloom.errors import ImageError
from tagloom.recipe.pictures import Preprocess

SIZE = 32
LONGEST_MESSAGE = 1000


def main(kind: str, rounds: int) -> None:
    """Damage and decode; print one line of JSON. Anything but an `ImageError` ends the process with a traceback."""
    warnings.simplefilter("ignore")  # Pillow's, about metadata
    rng = random.Random(f"{kind} {rounds}")
    whole = pictures(kind)
    for data in whole:
        open_image(data)
    before, results, slowest = peak_memory(), Counter(), 0.0
    for start in range(0, rounds, 100):
        damaged = [mutate(rng.choice(whole), whole, rng) for _ in range(min(100, rounds - start))]
        if kind == "PNG":
            damaged = [with_checksums(data) if rng.random() < 0.7 else data for data in damaged]
        for data in damaged:
            started = time.monotonic()
            results[outcome(data)] += 1
            slowest = max(slowest, time.monotonic() - started)
        batches = list(read_pictures(damaged, Preprocess(size=SIZE), threads=1))
        assert sum(len(batch.indices) + len(batch.errors) for batch in batches) == len(damaged)
    print(json.dumps({"results": results, "slowest": slowest, "memory": peak_memory() - before}))


def outcome(data: bytes) -> str:
    """Decode one file: "decoded", or the reason why not."""
    try:
        image = open_image(data)
    except ImageError as error:
        return error.reason if len(str(error)) < LONGEST_MESSAGE else "a long message"
    except BaseException:  # noqa: BLE001  whatever it is, it is not ours
        traceback.print_exc()
        sys.exit(f"an error that is not ours, for {data!r}")
    assert image.mode == "RGB"
    return "decoded"


def pictures(kind: str) -> list[bytes]:
    """Make small whole files of a format, one for each way in which the decoder handles it."""
    rng = np.random.default_rng(0)
    rgb = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8).repeat(2, 0).repeat(2, 1))
    rgba = rgb.copy()
    rgba.putalpha(rgb.convert("L"))
    deep = Image.fromarray(rng.integers(0, 65536, (24, 32), dtype=np.uint16))
    real = Image.fromarray(rng.random((24, 32), dtype=np.float32))
    exif = Image.Exif()
    exif[274], exif[271], exif[33434] = 6, "a camera", 0.01
    written: dict[str, list[tuple[Image.Image, dict[str, object]]]] = {
        "JPEG": [
            (rgb, {}),
            (rgb, {"progressive": True, "exif": exif}),
            (rgb.convert("L"), {"optimize": True}),
            (rgb.convert("CMYK"), {"dpi": (300, 300)}),
            (rgb, {"subsampling": 0, "quality": 30, "icc_profile": b"profile" * 20, "comment": b"hello"}),
            (rgb, {"format": "MPO", "save_all": True, "append_images": [rgb]}),
        ],
        "PNG": [
            (rgb, {"exif": exif}),
            (rgba, {}),
            (rgb.convert("P"), {"transparency": 3}),
            (rgb.convert("1"), {}),
            (rgb.convert("LA"), {"dpi": (72, 72)}),
            (deep, {"icc_profile": b"profile" * 20}),
            (rgb, {"save_all": True, "append_images": [rgb.rotate(90)]}),
        ],
        "WEBP": [
            (rgb, {"exif": exif}),
            (rgba, {"lossless": True}),
            (rgba, {"quality": 20, "icc_profile": b"profile" * 20}),
            (rgb, {"save_all": True, "append_images": [rgb.rotate(90)], "duration": 100}),
        ],
        "TIFF": [
            (rgb, {"exif": exif}),
            (rgba, {"compression": "tiff_lzw"}),
            (rgb, {"compression": "tiff_adobe_deflate"}),
            (rgb, {"compression": "packbits"}),
            (rgb, {"compression": "jpeg"}),
            (rgb.convert("1"), {"compression": "group4"}),
            (rgb.convert("P"), {"big_tiff": True}),
            (rgb.convert("CMYK"), {}),
            (deep, {}),
            (real, {"compression": "tiff_lzw"}),
            (rgb, {"save_all": True, "append_images": [rgb]}),
        ],
        "GIF": [(rgb, {}), (rgba, {}), (rgb, {"save_all": True, "append_images": [rgb.rotate(90)]})],
        "BMP": [(rgb, {}), (rgba, {}), (rgb.convert("P"), {}), (rgb.convert("1"), {})],
    }
    return [_file(image, {"format": kind, **options}) for image, options in written[kind]]


def peak_memory() -> int:
    """Megabytes."""
    # Not ru_maxrss: in a child that still counts the process it was forked from.
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def _file(image: Image.Image, options: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
