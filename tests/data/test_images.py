"""The decoder against hostile, odd and ordinary files, all made here."""

import io
import os
import pickle
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, ImageOps, PngImagePlugin

from tagloom.data import images
from tagloom.data.images import content_hash, find_images, open_image
from tagloom.errors import DataError, ImageError


def picture(width: int = 48, height: int = 32) -> Image.Image:
    """A picture in which no flip or turn looks like another."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, (x + 2 * y) / 3], axis=2).astype(np.uint8))


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, idat: bytes, depth: int = 8, colour: int = 0, extra: bytes = b"") -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", idat) + chunk(b"IEND", b"")


def deflated_zeros(length: int) -> bytes:
    """A valid zlib stream of very many zeros, made without compressing them all: one flushed block, repeated."""
    block, step = zlib.compressobj(9, zlib.DEFLATED, -15), 2**22
    once = block.compress(bytes(step)) + block.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    tail = last.compress(bytes(length % step)) + last.flush()
    checksum = (length % 65521) << 16 | 1  # Adler-32 of zeros
    return b"\x78\x9c" + once * (length // step) + tail + struct.pack(">I", checksum)


def refused(source: object, **options: object) -> ImageError:
    with pytest.raises(ImageError) as caught:
        open_image(source, **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(caught.value.path)
    return caught.value


def outcome(data: bytes) -> str:
    """The mode of the decoded image, or the reason why there is none; any other exception passes through."""
    try:
        return open_image(data).mode
    except ImageError as error:
        return error.reason


# Ordinary files


@pytest.mark.parametrize(
    ("kind", "options"),
    [("PNG", {}), ("BMP", {}), ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("WEBP", {"lossless": True})],
)
def test_lossless_formats_come_back_pixel_for_pixel(kind: str, options: dict[str, object]) -> None:
    assert np.array_equal(open_image(encode(picture(), kind, **options)), picture())


def test_a_path_bytes_a_stream_and_an_opened_image_give_the_same_pixels(tmp_path: Path) -> None:
    data = encode(picture(), "JPEG")
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    with path.open("rb") as stream, Image.open(path) as opened:
        results = [open_image(source) for source in (path, str(path), data, stream, opened)]
    for result in results:
        assert type(result) is Image.Image
        assert result.mode == "RGB"
        assert np.array_equal(result, results[0])


def test_the_suffix_does_not_decide_the_format(tmp_path: Path) -> None:
    path = tmp_path / "really_a_png.jpg"
    path.write_bytes(encode(picture(), "PNG"))
    assert np.array_equal(open_image(path), picture())


def test_the_given_image_is_left_as_it_was() -> None:
    given_image = picture().convert("RGBA")
    before = given_image.tobytes()
    result = open_image(given_image)
    result.putpixel((0, 0), (1, 2, 3))
    assert given_image.mode == "RGBA"
    assert given_image.tobytes() == before
    same = picture()
    open_image(same).putpixel((0, 0), (9, 9, 9))
    assert np.array_equal(same, picture())


def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "lime", "blue")]
    for kind in ("GIF", "WEBP", "PNG"):
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
        assert open_image(data).getpixel((5, 5)) == (255, 0, 0), kind


def test_an_mpo_gives_its_first_picture() -> None:
    data = encode(Image.new("RGB", (32, 32), "red"), "MPO", save_all=True, append_images=[Image.new("RGB", (32, 32))])
    red, green, blue = open_image(data).getpixel((9, 9))
    assert red > 240
    assert green < 15
    assert blue < 15


# Modes


@pytest.mark.parametrize(("kind", "depth_mode"), [("PNG", "I;16"), ("TIFF", "I;16"), ("TIFF", "I;16B")])
def test_sixteen_bit_greyscale_keeps_its_gradient(kind: str, depth_mode: str) -> None:
    values = np.linspace(0, 65535, 256 * 4).astype(np.uint16).reshape(4, 256)
    image = Image.frombytes(depth_mode, (256, 4), values.astype(">u2" if depth_mode == "I;16B" else "<u2").tobytes())
    expected = np.round(values / 257).astype(int)
    for source in (image, encode(image, kind)):
        got = np.asarray(open_image(source)).astype(int)
        assert (got[..., 0] == got[..., 2]).all()
        assert np.abs(got[..., 1] - expected).max() <= 1
        assert got.min() == 0
        assert got.max() == 255


def test_float_greyscale_is_read_on_the_scale_it_is_on() -> None:
    ramp = np.linspace(0, 1, 11, dtype=np.float32)[None]
    expected = np.round(ramp * 255)
    for factor, shift in ((1, 0), (255, 0), (1000, 0), (2, -1)):
        got = np.asarray(open_image(Image.fromarray(ramp * factor + shift)))[..., 0]
        assert np.abs(got - expected).max() <= 1, (factor, shift)


def test_float_greyscale_with_infinities_and_nans_is_still_a_picture() -> None:
    values = np.array([[0.0, 0.5, 1.0, np.nan, np.inf, -np.inf]], dtype=np.float32)
    assert np.asarray(open_image(encode(Image.fromarray(values), "TIFF")))[0, :, 0].tolist() == [0, 128, 255, 0, 0, 0]


def test_integers_beyond_sixteen_bits_are_stretched() -> None:
    values = np.array([[-70000, 0, 70000]], dtype=np.int32)
    assert np.asarray(open_image(Image.fromarray(values)))[0, :, 0].tolist() == [0, 128, 255]


def test_a_flat_deep_image_does_not_divide_by_zero() -> None:
    assert open_image(Image.new("F", (2, 2), -5.0)).getpixel((0, 0)) == (0, 0, 0)


def test_one_bit_and_palette_images_keep_their_colours() -> None:
    bits = Image.new("1", (4, 4), 1)
    bits.putpixel((0, 0), 0)
    got = open_image(encode(bits, "PNG"))
    assert got.getpixel((0, 0)) == (0, 0, 0)
    assert got.getpixel((1, 1)) == (255, 255, 255)
    palette = picture().quantize(256)
    assert np.array_equal(open_image(encode(palette, "PNG")), palette.convert("RGB"))


def test_transparent_pixels_become_white_in_every_mode() -> None:
    clear_red = Image.new("RGBA", (6, 6), (255, 0, 0, 0))
    half_black = Image.new("LA", (6, 6), (0, 128))
    palette = Image.new("P", (6, 6), 1)
    palette.putpalette([0, 0, 0, 200, 0, 0])
    assert open_image(encode(clear_red, "PNG")).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(encode(half_black, "PNG")).getpixel((3, 3)) == (127, 127, 127)
    assert open_image(encode(palette, "PNG", transparency=b"\xff\x00")).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(encode(palette, "GIF", transparency=1)).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(encode(palette, "PNG", transparency=b"\x00\xff")).getpixel((3, 3)) == (200, 0, 0)
    keyed = encode(Image.new("RGB", (6, 6), (1, 2, 3)), "PNG", transparency=(1, 2, 3))
    assert open_image(keyed).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(clear_red.convert("RGBa")).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(half_black.convert("La")).getpixel((3, 3)) == (127, 127, 127)


@pytest.mark.parametrize("mode", ["YCbCr", "HSV", "CMYK"])
def test_other_colour_spaces_give_nearly_the_same_rgb(mode: str) -> None:
    difference = np.abs(np.asarray(open_image(picture().convert(mode)), dtype=int) - np.asarray(picture(), dtype=int))
    assert difference.mean() < 6


def test_a_cmyk_jpeg_is_not_a_negative() -> None:
    cyan_ink = Image.new("CMYK", (32, 32), (255, 0, 0, 0))
    red, green, blue = open_image(encode(cyan_ink, "JPEG", quality=95)).getpixel((9, 9))
    assert red < 40
    assert min(green, blue) > 215


# Orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_applied_once(kind: str, orientation: int) -> None:
    stored = picture()
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, object] = {"lossless": True} if kind == "WEBP" else {}
    data = encode(stored, kind, exif=exif, **options)
    turned = np.asarray(stored)
    expected = {
        1: turned,
        2: turned[:, ::-1],
        3: turned[::-1, ::-1],
        4: turned[::-1],
        5: turned.transpose(1, 0, 2),
        6: np.rot90(turned, -1),
        7: turned[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(turned),
    }
    result = open_image(data)
    assert np.array_equal(result, expected[orientation])
    assert np.array_equal(open_image(result), expected[orientation])
    with Image.open(io.BytesIO(data)) as opened:
        assert np.array_equal(result, ImageOps.exif_transpose(opened))


def test_damaged_exif_does_not_refuse_good_pixels() -> None:
    data = encode(picture(), "PNG", exif=b"Exif\x00\x00MM\x00*" + b"\xff" * 30)
    assert np.array_equal(open_image(data), picture())


# Draft decoding of large JPEGs


@pytest.mark.parametrize(
    ("at_least", "expected"),
    [((100, 100), (100, 200)), ((101, 100), (200, 400)), ((399, 399), (400, 800)), ((900, 900), (800, 1600))],
)
def test_a_large_jpeg_is_decoded_smaller_but_never_below_the_size_wanted(
    at_least: tuple[int, int], expected: tuple[int, int]
) -> None:
    data = encode(picture(800, 1600), "JPEG")
    assert open_image(data, at_least=at_least).size == expected
    assert open_image(encode(picture(800, 1600), "PNG"), at_least=at_least).size == (800, 1600)


def test_the_size_wanted_of_a_sideways_jpeg_is_that_of_the_upright_picture() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode(picture(1600, 400), "JPEG", exif=exif)
    assert open_image(data, at_least=(400, 1000)).size == (400, 1600)
    assert open_image(data, at_least=(200, 800)).size == (200, 800)


# Hostile files


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_file_that_ends_early_is_refused_wherever_it_ends(kind: str) -> None:
    data = encode(picture(120, 90), kind)
    for length in range(1, len(data) - 24, 97):
        assert refused(data[:length]).reason in ("broken", "format"), length


def test_the_header_alone_is_enough_to_refuse_too_many_pixels() -> None:
    error = refused(png(60_000, 60_000, zlib.compress(b"")))
    assert error.reason == "oversized"
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        error = refused(encode(picture(), kind), max_pixels=48 * 32 - 1)
        assert error.reason == "oversized", kind
        assert "1,536 pixels" in str(error)
        assert open_image(encode(picture(), kind), max_pixels=48 * 32).size == (48, 32)
    assert refused(picture(), max_pixels=10).reason == "oversized"


@pytest.mark.parametrize("pillow_cap", [Image.MAX_IMAGE_PIXELS, None])
def test_a_small_file_that_decodes_to_gigabytes_is_refused_whatever_pillows_cap(
    pillow_cap: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = 71_680
    bomb = png(side, side, deflated_zeros((side // 8 + 1) * side), depth=1)
    assert len(bomb) < 700_000  # 15 gigabytes as RGB
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_cap)
    assert refused(bomb).reason == "oversized"


def test_the_bombs_of_these_tests_are_real_images() -> None:
    small = png(4096, 2048, deflated_zeros((4096 // 8 + 1) * 2048), depth=1)
    assert open_image(small).size == (4096, 2048)
    assert open_image(small).getextrema() == ((0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP"])
def test_metadata_that_decodes_to_gigabytes_is_refused(kind: bytes) -> None:
    body = b"name\x00\x00" + deflated_zeros(2**31)
    assert refused(png(2, 2, zlib.compress(bytes(6)), extra=chunk(kind, body))).reason == "broken"


def test_a_small_tiff_cut_from_an_enormous_tile_is_refused() -> None:
    entries = [
        (256, 4, 1, 8),
        (257, 4, 1, 8),
        (258, 3, 1, 8),
        (259, 3, 1, 5),
        (262, 3, 1, 1),
        (277, 3, 1, 1),
        (322, 4, 1, 60_000),
        (323, 4, 1, 60_000),
        (324, 4, 1, 200),
        (325, 4, 1, 8),
    ]
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    tiff = b"II*\x00\x08\x00\x00\x00" + struct.pack("<H", len(entries)) + fields + bytes(4)
    assert refused(tiff.ljust(200, b"\0") + bytes(64)).reason == "oversized"


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = encode(picture(), "JPEG", progressive=True)
    scan = data.rindex(b"\xff\xda")
    last_scan = data[scan:-2]
    assert refused(data[:-2] + last_scan * 100 + b"\xff\xd9").reason == "oversized"


def test_a_photo_with_a_long_video_appended_is_not_taken_for_endless_scans() -> None:
    video = np.random.default_rng(0).bytes(2**24)
    assert open_image(encode(picture(), "JPEG") + video).size == (48, 32)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_an_image_without_pixels_is_refused(shape: tuple[int, int]) -> None:
    assert refused(Image.new("RGB", shape)).reason == "broken"
    assert refused(png(*shape, zlib.compress(b""))).reason == "broken"


def test_a_file_that_is_not_an_image_is_distinguished_from_a_broken_one(tmp_path: Path) -> None:
    text = tmp_path / "notes.jpg"
    text.write_text("dear diary, " * 50)
    assert refused(text).reason == "format"
    assert "notes.jpg" in str(refused(text))
    assert refused(b"").reason == "broken"
    assert refused(encode(picture(), "PNG")[:20]).reason == "broken"
    assert refused(encode(picture(), "PPM")).reason == "format"  # Pillow reads it, the allowlist does not hold it
    assert refused(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n").reason == "format"


def test_paths_without_a_file_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.jpg").reason == "missing"
    assert refused(str(tmp_path / "none.jpg" / "x.png")).reason == "missing"
    assert refused("nul\0character.jpg").reason == "missing"
    assert refused(tmp_path).reason == "format"
    assert refused("/dev/zero").reason == "format"
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    assert refused(pipe).reason == "format"
    closed = io.BytesIO(b"x")
    closed.close()
    assert refused(closed).reason == "missing"


def test_files_beyond_the_size_cap_are_not_read_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 1000)
    path = tmp_path / "big.png"
    path.write_bytes(encode(picture(), "BMP"))
    assert refused(path).reason == "oversized"
    with path.open("rb") as stream:
        assert refused(stream).reason == "oversized"
        assert stream.tell() == 1001


@settings(max_examples=150, deadline=None)
@given(
    start=st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\0", b"MM\0*", b"RIFF"]),
    rest=st.binary(max_size=400),
)
def test_random_bytes_raise_nothing_but_image_errors(start: bytes, rest: bytes) -> None:
    assert outcome(start + rest) in ("RGB", "broken", "oversized", "format")


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"]),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_files_raise_nothing_but_image_errors(kind: str, changes: list[tuple[float, int]]) -> None:
    data = bytearray(encode(picture(), kind))
    for share, value in changes:
        data[int(share * min(len(data), 400))] = value
    assert outcome(bytes(data)) in ("RGB", "broken", "oversized", "format")


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(refused(b"")))  # noqa: S301  our own bytes
    assert isinstance(error, ImageError)
    assert (error.path, error.reason, str(error)) == ("<bytes>", "broken", "<bytes>: is empty (0 bytes). Replace it.")


def test_nothing_global_in_pillow_changes_and_threads_agree() -> None:
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, PngImagePlugin.MAX_TEXT_CHUNK
    sources = [encode(picture(40 + i, 30), kind) for i in range(8) for kind in ("PNG", "TIFF", "WEBP")]
    alone = [np.asarray(open_image(source)) for source in sources]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda source: np.asarray(open_image(source)), sources * 3))
    assert all(np.array_equal(one, alone[i % len(alone)]) for i, one in enumerate(together))
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, PngImagePlugin.MAX_TEXT_CHUNK)


# Folders and names


def test_find_images_is_sorted_recursive_and_leaves_hidden_files_out(tmp_path: Path) -> None:
    for name in ("b.JPG", "a/z.png", "a/notes.txt", ".hidden.png", ".cache/x.png", "a/.b/y.gif", "c.tiff"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path).as_posix() for path in find_images(tmp_path)]
    assert found == ["a/z.png", "b.JPG", "c.tiff"]
    with pytest.raises(DataError, match="no such folder"):
        find_images(tmp_path / "none")


def test_content_hash_follows_bytes_and_not_names(tmp_path: Path) -> None:
    for name, data in (("a", b"x" * 3_000_000), ("b", b"x" * 3_000_000), ("c", b"x" * 3_000_001)):
        (tmp_path / name).write_bytes(data)
    first, second, third = (content_hash(tmp_path / name) for name in "abc")
    assert first == second != third
    assert len(first) == 32
    with pytest.raises(ImageError, match="no such file"):
        content_hash(tmp_path / "none")
