"""Bad pictures stop nothing: every one is decoded or refused with an `ImageError`, in little time and memory."""

import io
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.data.images import open_image
from tagloom.data.reading import read_pictures
from tagloom.errors import ImageError
from tagloom.recipe.pictures import Preprocess

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # about metadata
HERE = Path(__file__).parent
MOST_SECONDS = 20  # of one picture, on a machine that is busy with other things
MOST_MEGABYTES = 1500  # a picture at the cap of pixels takes 1,300

GOOD = Image.fromarray(np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3))


def run(script: str, *arguments: str) -> dict[str, object]:
    """Run a script in a process of its own; give what it prints."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP"])
def test_damaged_pictures_are_decoded_or_refused(kind, fuzz_rounds):
    rounds = fuzz_rounds(5000)
    found = run("damaged_pictures.py", kind, str(rounds))
    assert sum(found["results"].values()) == rounds
    assert set(found["results"]) <= {"decoded", "broken", "oversized", "format"}
    assert found["results"]["decoded"] > 0.05 * rounds  # or the damage would be too coarse to reach the decoder
    assert found["results"]["broken"] > 0.1 * rounds
    assert found["slowest"] < MOST_SECONDS
    assert found["memory"] < MOST_MEGABYTES


def encode(form: str, image: Image.Image = GOOD, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *, bits: int = 8, colour: int = 2, rows: bytes = b"", extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def tiff(entries: list[tuple[int, int, int, int]], following: int = 0, tail: bytes = b"") -> bytes:
    directory = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + directory + struct.pack("<I", following) + tail


GREY = [(256, 4, 1, 4), (257, 4, 1, 4), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (278, 4, 1, 4), (279, 4, 1, 16)]
WIDE = [(256, 4, 1, 60_000), (257, 4, 1, 60_000), *GREY[2:]]
TILED = [*GREY, (322, 4, 1, 2**31 - 16), (323, 4, 1, 2**31 - 16), (324, 4, 1, 8), (325, 4, 1, 16)]
OVERLAPPING = [*GREY, *((1000 + number, 7, 90_000, 100) for number in range(5000))]
SCANS = encode("JPEG", progressive=True)

# What is wrong with a file, its bytes, and for which reasons it may be refused; "" if it may be decoded.
CORPUS: dict[str, tuple[Callable[[], bytes], set[str]]] = {
    "nothing": (lambda: b"", {"broken"}),
    "one byte": (lambda: b"\xff", {"format"}),
    "text": (lambda: b"<html>404 Not Found</html>", {"format"}),
    "an archive": (lambda: b"PK\x03\x04" + bytes(100), {"format"}),
    "zeros": (lambda: bytes(10_000), {"format"}),
    "a PNG of 0 x 0": (lambda: png(0, 0), {"broken", "format"}),
    "a PNG of 2,147,483,647 x 2,147,483,647": (lambda: png(2**31 - 1, 2**31 - 1), {"oversized"}),
    "a PNG of 30,000 x 30,000": (lambda: png(30_000, 30_000), {"oversized"}),
    "a PNG without pixels": (lambda: png(9000, 9000), {"broken"}),
    "a PNG with 200 MB of rows for 4 x 4 pixels": (lambda: png(4, 4, rows=bytes(200 * 2**20)), {"", "broken"}),
    "a PNG with 200 MB of text": (
        lambda: png(4, 4, rows=bytes(52), extra=chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(200 * 2**20)))),
        {"", "broken", "oversized"},
    ),
    "a PNG with 200 MB of colour profile": (
        lambda: png(4, 4, rows=bytes(52), extra=chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(200 * 2**20)))),
        {"", "broken", "oversized"},
    ),
    "a PNG with a chunk of 2 GB": (lambda: png(4, 4)[:33] + b"\x7f\xff\xff\xfftEXt" + bytes(50), {"broken"}),
    "a GIF of 65,535 x 65,535": (
        lambda: b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\2\1\1\0;",
        {"oversized"},
    ),
    "a TIFF of 60,000 x 60,000": (lambda: tiff(WIDE), {"oversized"}),
    "a TIFF with one enormous tile": (lambda: tiff(TILED), {"oversized", "broken"}),
    "a TIFF whose directory follows itself": (lambda: tiff(GREY, following=8, tail=bytes(16)), {""}),
    "a TIFF whose 5,000 tags share their bytes": (lambda: tiff(OVERLAPPING, tail=bytes(90_000)), {"", "broken"}),
    "a TIFF of 65,535 bits": (lambda: tiff([*GREY[:2], (258, 3, 1, 65_535), *GREY[3:]]), {"broken", "format"}),
    "a WebP of 16,383 x 16,383": (
        lambda: b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0/\xff\xff\xff\x0f" + bytes(13),
        {"oversized", "broken", "format"},
    ),
    "a JPEG of 65,535 x 65,535": (
        lambda: SCANS.replace(struct.pack(">HH", 48, 64), b"\xff\xff\xff\xff", 1),
        {"oversized", "broken"},
    ),
    "a JPEG with 2,000 scans": (
        lambda: SCANS[:-2] + SCANS[SCANS.rindex(b"\xff\xda") : -2] * 2000 + SCANS[-2:],
        {"oversized"},
    ),
    "a JPEG with 1,000 comments": (
        lambda: SCANS[:2] + (b"\xff\xfe\xff\xff" + bytes(65_533)) * 1000 + SCANS[2:],
        {"", "broken", "oversized"},
    ),
    "a BMP of negative size": (
        lambda: encode("BMP")[:18] + struct.pack("<ii", -64, -48) + encode("BMP")[26:],
        {"", "broken", "format", "oversized"},
    ),
    "half a JPEG": (lambda: encode("JPEG")[:900], {"broken"}),
    "half a PNG": (lambda: encode("PNG")[:100], {"broken"}),
    "half a WebP": (lambda: encode("WEBP")[:60], {"broken", "format"}),
}


def error_of(data: bytes) -> ImageError | None:
    try:
        open_image(data)
    except ImageError as error:
        return error
    return None


@pytest.mark.parametrize("name", CORPUS)
def test_a_corpus_of_bad_pictures(name):
    make, reasons = CORPUS[name]
    error = error_of(make())
    assert (error.reason if error else "") in reasons
    assert len(str(error)) < 500


def test_bad_pictures_cost_no_good_one(tmp_path):
    bad = [make() for make, reasons in CORPUS.values() if "" not in reasons]
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    sources: list[object] = []
    for picture in (
        *bad,
        tmp_path / "pipe.png",
        tmp_path / "loop.png",
        tmp_path,
        "/dev/zero",
        "zero\0.jpg",
        "\ud800.png",
    ):
        sources += [picture, encode("PNG")]
    batches = list(read_pictures(sources, Preprocess(size=32), batch_size=7))
    assert [index for batch in batches for index in batch.indices] == list(range(1, len(sources), 2))
    assert [index for batch in batches for index, _ in batch.errors] == list(range(0, len(sources), 2))


def test_memory_is_capped_at_the_cap_of_pixels(tmp_path):
    """Forty-six bytes of WebP claim 81 million pixels, and really have them."""
    blank = encode("WEBP", Image.new("RGBA", (9000, 9000)), lossless=True, method=0)
    assert len(blank) < 1000
    (tmp_path / "blank.webp").write_bytes(blank)
    code = "import sys; from tagloom.data.images import open_image; open_image(sys.argv[1])\n"
    # Not ru_maxrss: in a child that still counts the process it was forked from.
    code += (
        "print(next(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "blank.webp")], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < MOST_MEGABYTES


def test_a_file_with_thousands_of_damaged_tags_does_not_fill_the_terminal(tmp_path):
    (tmp_path / "a.tif").write_bytes(CORPUS["a TIFF whose 5,000 tags share their bytes"][0]())
    (tmp_path / "b.png").write_bytes(encode("PNG"))
    (tmp_path / "t.csv").write_text("image,labels\na.tif,cat\nb.png,cat\n")
    command = [sys.executable, "-m", "tagloom", "check", str(tmp_path / "t.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stderr.splitlines()) < 20
