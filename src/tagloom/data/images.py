"""One safe way to open an image: whatever comes in, upright RGB pixels come out, or an `ImageError`.

Files come from strangers. Only the formats below are tried. The file size and the number of pixels in the header are
capped before anything is decoded, a truncated file is refused, and nothing global in Pillow is changed.
"""

import hashlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

# Importing these plugins registers them, so that Pillow never loads its forty others.
from PIL import (  # noqa: F401  isort: skip
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from tagloom.data.packed.images import PackedImage
from tagloom.data.regular_file import NotRegularError, open_regular, read_regular
from tagloom.errors import DataError, ImageError
from tagloom.wording import first_line

# Pillow opens multi-picture MPO files, which some phones and cameras write, through its JPEG plugin.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".mpo"})

# 89 million pixels, 340 MiB in Pillow: more than nearly every camera produces, and a few at once still fit in a
# laptop. Pillow itself warns from this number and refuses from twice as many, so callers can go up to that.
MAX_PIXELS = 256 * 2**20 // 3
MAX_FILE_BYTES = 256 * 2**20

# A progressive JPEG has about ten scans. Each takes a pass over the whole picture and as little as ten bytes of file,
# so a small file could keep a core busy for hours. A video appended to a photo contains the marker by chance, about
# once in 64 KiB, which must not count.
MAX_JPEG_SCANS = 64
_SCAN_MARKER = b"\xff\xda"
_BYTES_PER_CHANCE_MARKER = 2**14

_BLOCK_PIXELS = 2**20  # of a deep picture that are scaled at a time

_TIFF_TILE_WIDTH, _TIFF_TILE_HEIGHT, _TIFF_BITS, _EXIF_ORIENTATION = 322, 323, 258, 274
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = {5, 6, 7, 8}


def open_image(
    source: str | os.PathLike[str] | PackedImage | bytes | BinaryIO | Image.Image,
    *,
    max_pixels: int = MAX_PIXELS,
    at_least: tuple[int, int] | None = None,
) -> Image.Image:
    """Decode an image into RGB, rotated by its EXIF orientation, with transparent pixels on white.

    An animation gives its first frame. Greyscale deeper than 8 bits is scaled, not clipped.

    Args:
        source: A path, a packed image, the bytes of a file, a binary stream, or an image already opened by Pillow.
        max_pixels: The most pixels that the header may give.
        at_least: A width and height that are enough. A JPEG is then decoded at a half, a quarter or an eighth of its
            size if that is no smaller, which is several times faster for large photos.

    Returns:
        A new RGB image without metadata; `source` is not changed.

    Raises:
        ImageError: Whatever went wrong, with `reason` missing, broken, oversized or format.

    >>> open_image(Image.new("L", (4, 3), 255)).getpixel((0, 0))
    (255, 255, 255)
    """
    name, data = (_image_name(source), b"") if isinstance(source, Image.Image) else _read(source)
    try:
        if isinstance(source, Image.Image):
            _check_claims(source, name, max_pixels)
            return _to_upright_rgb(source)
        return _decode(data, name, max_pixels, at_least)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError) as error:
        raise ImageError(
            name, "oversized", f"decodes to more than Pillow or this machine allows ({first_line(error)})."
        ) from error
    except UnidentifiedImageError as error:
        raise _unidentified(name, data) from error
    except Exception as error:  # Pillow's plugins raise two dozen types on hostile files, from struct.error to KeyError
        raise ImageError(name, "broken", f"cannot be decoded ({first_line(error)}). Replace it.") from error


def claimed_pixels(data: bytes) -> int:
    """Give the number of pixels that the header of an encoded image claims, without decoding it.

    Gives 0 where the header cannot be read: `open_image` says what is wrong then.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return image.width * image.height
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return sys.maxsize
    except Exception:  # noqa: BLE001  as in `open_image`
        return 0


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """List the image files of a folder and its subfolders; see `walk_images`."""
    return list(walk_images(folder))


def walk_images(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the image files of a folder and its subfolders, recognised by suffix, in sorted order, one by one.

    Files and folders that begin with a dot are skipped. Links to folders are not followed, so there are no loops.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder. Give the folder that contains the images.")
    waiting = [_entries(root)]  # a stack, so that folders may be as deep as they like
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
        elif entry[1]:
            waiting.append(_entries(entry[0]))
        else:
            yield entry[0]


def _entries(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Give the image files and the subfolders of a folder by name, and which of them are folders."""
    found: list[tuple[str, bool]] = []
    with suppress(OSError), os.scandir(folder) as entries:  # no permission, or gone: such a folder has nothing to give
        for entry in entries:
            is_folder = _leads_to_folder(entry)
            wanted = not entry.is_symlink() if is_folder else has_image_suffix(entry.name)
            if wanted and not entry.name.startswith("."):
                found.append((entry.name, is_folder))
    found.sort()
    return ((folder / name, is_folder) for name, is_folder in found)


def _leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def has_image_suffix(name: str) -> bool:
    """Whether a file name ends like that of an image, and is not hidden.

    >>> has_image_suffix("a/b.JPG"), has_image_suffix("a/._b.jpg"), has_image_suffix("a.txt")
    (True, False, False)
    """
    last = name.rpartition("/")[2]
    return f".{last.rpartition('.')[2].lower()}" in IMAGE_SUFFIXES and not last.startswith(".")


def read_image(source: str | os.PathLike[str] | PackedImage) -> bytes:
    """Read the bytes of an image, whether it is a file or packed.

    Raises:
        ImageError: If it cannot be read, is empty, is not a regular file, or is larger than `open_image` reads.
    """
    return _read(source)[1]


def content_hash(path: str | os.PathLike[str] | PackedImage) -> str:
    """Hash the bytes of an image with BLAKE2b, as 32 hexadecimal digits.

    Raises:
        ImageError: If the file cannot be read, is not a regular file, or is larger than `open_image` reads.
    """
    if isinstance(path, PackedImage):
        return hashlib.blake2b(path.read(), digest_size=16).hexdigest()
    digest = hashlib.blake2b(digest_size=16)
    read = 0
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                raise _too_large(os.fspath(path))
            while block := file.read(2**20):
                read += len(block)
                if read > MAX_FILE_BYTES:  # it grew, or is a file of /proc, whose size is given as 0
                    raise _too_large(os.fspath(path))
                digest.update(block)
    except (OSError, ValueError) as error:  # ValueError: a zero character in the path
        raise _unreadable(os.fspath(path), error) from error
    return digest.hexdigest()


def _image_name(image: Image.Image) -> str:
    return str(getattr(image, "filename", "") or "<image>")


def _read(source: str | os.PathLike[str] | PackedImage | bytes | BinaryIO) -> tuple[str, bytes]:
    """Read a whole source, at most one byte beyond the cap. Return its name for messages, and its bytes."""
    if isinstance(source, bytes):
        name, data = "<bytes>", source
    elif isinstance(source, PackedImage):
        name, data = str(source), source.read()
    elif isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        try:
            data = read_regular(source, MAX_FILE_BYTES)
        except (OSError, ValueError) as error:  # ValueError: a zero character in the path
            raise _unreadable(name, error) from error
    else:
        name = str(getattr(source, "name", "<stream>"))
        try:
            data = source.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:  # ValueError: a closed stream
            raise _unreadable(name, error) from error
    if not data:
        raise ImageError(name, "broken", "is empty (0 bytes). Replace it.")
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(name)
    return name, data


def _unreadable(name: str, error: Exception) -> ImageError:
    if isinstance(error, NotRegularError):
        return ImageError(name, "format", f"{error.strerror}. Give an image file.")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ImageError(name, "missing", "no such file.")
    return ImageError(name, "missing", f"cannot be read ({getattr(error, 'strerror', None) or error}).")


def _too_large(name: str) -> ImageError:
    return ImageError(name, "oversized", f"is larger than {MAX_FILE_BYTES:,} bytes. Make it smaller.")


def _decode(data: bytes, name: str, max_pixels: int, at_least: tuple[int, int] | None) -> Image.Image:
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        _check_claims(image, name, max_pixels)
        if image.format in ("JPEG", "MPO"):
            if data.count(_SCAN_MARKER) > MAX_JPEG_SCANS + len(data) // _BYTES_PER_CHANCE_MARKER:
                raise ImageError(name, "oversized", f"is a JPEG with more than {MAX_JPEG_SCANS} scans. Save it again.")
            if at_least is not None:
                image.draft(None, at_least[::-1] if _orientation(image) in _SIDEWAYS else at_least)
        return _to_upright_rgb(image)


def _check_claims(image: Image.Image, name: str, max_pixels: int) -> None:
    """Refuse an image that is empty or too large by its header, before any pixel is decoded."""
    width, height = image.size
    if width < 1 or height < 1:
        raise ImageError(name, "broken", f"has no pixels ({width} x {height}). Replace it.")
    pixels = width * height
    if isinstance(image, TiffImagePlugin.TiffImageFile):  # a small TIFF may be a cut-out of one enormous tile
        tile = image.tag_v2.get(_TIFF_TILE_WIDTH, 1), image.tag_v2.get(_TIFF_TILE_HEIGHT, 1)
        pixels = max(pixels, tile[0] * tile[1])
    if pixels > max_pixels:
        raise ImageError(
            name, "oversized", f"has {pixels:,} pixels, more than the {max_pixels:,} allowed. Make it smaller."
        )


def _unidentified(name: str, data: bytes) -> ImageError:
    """Distinguish a damaged image of a known format from something that is not an image."""
    for known in FORMATS:
        accept = Image.OPEN[known][1]
        if accept is not None and accept(data[:16]) is True:
            return ImageError(name, "broken", f"begins like a {known} file, but its header is damaged. Replace it.")
    return ImageError(name, "format", f"is not an image in a format Tagloom reads ({', '.join(FORMATS)}).")


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # noqa: BLE001  damaged metadata of any kind is no reason to refuse good pixels
        return 1


def _to_upright_rgb(image: Image.Image) -> Image.Image:
    image.load()
    orientation = _orientation(image)  # after loading: Pillow rotates a TIFF itself and then drops its orientation
    rgb = _to_rgb(image)
    if orientation in _UPRIGHT:
        rgb = rgb.transpose(_UPRIGHT[orientation])
    rgb.info = {}  # or the orientation would be applied again if the result were opened again
    return rgb


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert any mode that Pillow decodes into a new RGB image."""
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_to_eight_bits(image)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    # Premultiplied greyscale converts only to plain greyscale with alpha.
    layer = image.convert("LA") if image.mode == "La" else image
    layer = layer if layer.mode == "RGBA" else layer.convert("RGBA")
    page = Image.new("RGB", image.size, "white")
    page.paste(layer, mask=layer)
    return page


def _to_eight_bits(image: Image.Image) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Scale deep greyscale (H, W) to 0..255.

    Integers are read on the scale of their file, 16 bits unless a TIFF says fewer; floats as 0..1, or as 0..255 if some
    exceed 1. Values outside have no documented scale, so they are stretched from minimum to maximum.
    """
    values = np.asarray(image)
    rows = max(1, _BLOCK_PIXELS // values.shape[1])  # a block at a time: each step below makes a copy, some of 8 bytes
    blocks = [values[start : start + rows] for start in range(0, len(values), rows)]
    low = min(float(_finite(block).min()) for block in blocks)
    high = max(float(_finite(block).max()) for block in blocks)
    if image.mode == "F":
        full = 1.0 if high <= 1 else 255.0
    else:
        bits = image.tag_v2.get(_TIFF_BITS, (16,))[0] if isinstance(image, TiffImagePlugin.TiffImageFile) else 16
        full = float(2 ** min(bits, 16) - 1)
    base = 0.0
    if low < 0 or high > full:
        base, full = low, (high - low) or 1.0  # 1 where all values are the same
    scaled = np.empty((values.shape[0], values.shape[1]), np.uint8)
    for start, block in zip(range(0, len(values), rows), blocks, strict=True):
        above = _finite(block).astype(np.float64) - base if base else _finite(block)
        scaled[start : start + rows] = above.astype(np.float32) * np.float32(255 / full) + 0.5
    return scaled


def _finite(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Replace what is not a number, or infinite, by 0."""
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0) if values.dtype.kind == "f" else values
