"""Preparing and augmenting pictures."""

import io
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tagloom.data import transforms
from tagloom.data.images import open_image
from tagloom.data.transforms import augment, decode_size, prepare, sample_rng
from tagloom.errors import RecipeError
from tagloom.recipe.pictures import Augment, Preprocess

EVERYTHING = Augment(flip=0.5, randaugment_ops=2, cutout=0.5, crop_scale=(0.3, 1.0))


def photo(width: int = 320, height: int = 200, seed: int = 0) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def mean_difference(one: object, other: object) -> float:
    return float(np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).mean())


# Preparing


def test_squeezing_keeps_the_whole_picture() -> None:
    image = Image.new("RGB", (300, 100), "black")
    image.paste("white", (290, 0, 300, 100))
    pixels = prepare(image, Preprocess(size=60))
    assert pixels.shape == (60, 60, 3)
    assert pixels.dtype == np.uint8
    assert pixels[:, 59].min() > 240
    assert pixels[:, :55].max() < 15


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(325, 200), (200, 375), (64, 64)])
def test_cropping_equals_resizing_the_shorter_side_and_cutting_out_the_middle(
    size: tuple[int, int], interpolation: str
) -> None:
    image, side, share = photo(*size), 56, 0.875
    preprocess = Preprocess(size=side, fit="crop", crop_share=share, interpolation=interpolation)  # type: ignore[arg-type]
    shorter = round(side / share)
    scale = shorter / min(size)
    resized = image.resize((round(size[0] * scale), round(size[1] * scale)), Image.Resampling[interpolation.upper()])
    left, top = (resized.width - side) // 2, (resized.height - side) // 2
    literal = resized.crop((left, top, left + side, top + side))
    assert mean_difference(prepare(image, preprocess), literal) < 0.5


def test_the_fast_paths_change_almost_nothing() -> None:
    image = photo(1600, 1200)
    exact = image.resize((96, 96), Image.Resampling.BICUBIC)
    preprocess = Preprocess(size=96)
    assert mean_difference(prepare(image, preprocess), exact) < 1
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=95)
    small = open_image(stream.getvalue(), at_least=decode_size(preprocess))
    assert small.width < 1600
    assert mean_difference(prepare(small, preprocess), exact) < 2


def test_the_decode_size_leaves_enough_pixels_for_the_tightest_crop() -> None:
    assert decode_size(Preprocess(size=100)) == (200, 200)
    assert decode_size(Preprocess(size=100, fit="crop", crop_share=0.5)) == (400, 400)
    assert decode_size(Preprocess(size=100), Augment(crop_scale=(0.25, 1.0))) == (400, 400)
    assert decode_size(Preprocess(size=100), Augment(flip=0.5)) == (200, 200)


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 300),
    height=st.integers(1, 300),
    fit=st.sampled_from(["squeeze", "crop"]),
    share=st.floats(0.05, 1.0),
    seed=st.integers(0, 1000),
)
def test_every_shape_of_picture_fits(width: int, height: int, fit: str, share: float, seed: int) -> None:
    image = Image.new("RGB", (width, height), (10, 200, 30))
    preprocess = Preprocess(size=32, fit=fit, crop_share=share)  # type: ignore[arg-type]
    assert (prepare(image, preprocess) == (10, 200, 30)).all()
    assert augment(image, preprocess, EVERYTHING, sample_rng(seed, 0, 0)).shape == (32, 32, 3)


# Augmenting


def test_an_augmentation_of_nothing_is_preparation() -> None:
    preprocess = Preprocess(size=48, fit="crop")
    assert np.array_equal(augment(photo(), preprocess, Augment(), sample_rng(0, 0, 0)), prepare(photo(), preprocess))


def test_the_result_depends_on_seed_epoch_and_index_and_not_on_order_or_workers() -> None:
    preprocess = Preprocess(size=40)

    def one(index: int) -> bytes:
        return augment(photo(seed=index), preprocess, EVERYTHING, sample_rng(1, 2, index)).tobytes()

    in_order = {index: one(index) for index in range(12)}
    shuffled = random.Random(0).sample(range(12), 12)
    np.random.seed(5)
    with ThreadPoolExecutor(3) as pool:
        assert dict(zip(shuffled, pool.map(one, shuffled), strict=True)) == in_order


def test_another_seed_epoch_or_index_gives_another_stream() -> None:
    streams = [sample_rng(*key).integers(2**60) for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0)]]
    assert len(set(streams)) == 5


def test_augmenting_leaves_the_picture_as_it_was() -> None:
    image = photo(40, 40)
    for index in range(20):
        augment(image, Preprocess(size=40), EVERYTHING, sample_rng(0, 0, index))
    assert np.array_equal(image, photo(40, 40))


def test_flips_have_the_probability_asked_for() -> None:
    preprocess, image = Preprocess(size=32), photo()
    still = prepare(image, preprocess)
    mirrored = 0
    for index in range(400):
        pixels = augment(image, preprocess, Augment(flip=0.25), sample_rng(0, 0, index))
        if not np.array_equal(pixels, still):
            assert mean_difference(pixels, still[:, ::-1]) == 0
            mirrored += 1
    assert 70 <= mirrored <= 130


def test_cutout_covers_at_most_the_square_asked_for_in_one_colour() -> None:
    preprocess, image = Preprocess(size=64), photo()
    still = prepare(image, preprocess)
    full = 0
    for index in range(100):
        pixels = augment(image, preprocess, Augment(cutout=0.5), sample_rng(0, 0, index))
        changed = (pixels != still).any(axis=2)
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        height, width = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
        assert 1 <= height <= 33
        assert 1 <= width <= 33
        assert len(np.unique(pixels[changed], axis=0)) == 1
        full += height >= 31 and width >= 31
    assert 10 <= full <= 45  # the centre is in the inner quarter of the picture


def test_random_crops_keep_a_share_of_the_area_within_the_scale() -> None:
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(500):
        left, top, right, bottom = transforms._random_box((300, 200), (0.25, 0.64), rng)
        assert 0 <= left < right <= 300
        assert 0 <= top < bottom <= 200
        shares.append((right - left) * (bottom - top) / 60_000)
    assert 0.249 < min(shares) < 0.27
    assert 0.60 < max(shares) < 0.641


def dull_photo() -> Image.Image:
    """Of little contrast, so that there is something to stretch."""
    return Image.fromarray((np.asarray(photo(64, 64)) // 2 + 40).astype(np.uint8))


def test_operations_of_no_strength_change_nothing_but_the_two_that_have_none() -> None:
    image = dull_photo()
    changed = [i for i, operation in enumerate(transforms._OPERATIONS) if mean_difference(operation(image, 0.0), image)]
    assert changed == [1, 2]  # autocontrast, equalize


def test_every_operation_but_identity_changes_a_picture_and_keeps_its_shape() -> None:
    image = dull_photo()
    for number, operation in enumerate(transforms._OPERATIONS):
        for strength in (-1.0, -0.5, 0.5, 1.0):
            result = operation(image, strength)
            assert (result.size, result.mode) == (image.size, "RGB")
            assert (mean_difference(result, image) > 0) == (number > 0), (number, strength)


def test_the_sign_of_the_strength_is_the_direction() -> None:
    image = Image.new("RGB", (64, 64), (100, 100, 100))
    image.paste((255, 0, 0), (24, 24, 40, 40))
    for operation in (transforms._translate_x, transforms._shear_x, transforms._rotate):
        assert mean_difference(operation(image, 0.7), operation(image, -0.7)) > 1
    for operation in (transforms._solarize, transforms._posterize):
        assert mean_difference(operation(image, 0.7), operation(image, -0.7)) == 0


def test_translation_moves_by_the_share_asked_for() -> None:
    image = Image.new("RGB", (100, 100))
    image.paste("white", (50, 50, 51, 51))
    moved = np.asarray(transforms._translate_x(image, 1.0))[..., 0]
    assert np.argwhere(moved == 255).tolist() == [[50, 5]]
    moved = np.asarray(transforms._translate_y(image, -0.2))[..., 0]
    assert np.argwhere(moved == 255).tolist() == [[59, 50]]


# Untrusted settings


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"size": "224"}, "it must be a whole number"),
        ({"size": True}, "it must be a whole number"),
        ({"size": 10**9}, "it must be a whole number from 32 to 4096"),
        ({"size": "9" * 10_000}, "is '999"),
        ({"fit": "squeze"}, "did you mean 'squeeze'"),
        ({"fit": ["crop"]}, "unknown fit"),
        ({"crop_share": float("nan")}, "it must be a number"),
        ({"crop_share": 0}, "it must be a number"),
        ({"interpolation": None}, "unknown interpolation"),
    ],
)
def test_wrong_preprocess_settings_are_refused_in_a_short_message(data: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        Preprocess(**data)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "fields",
    [
        {"flip": 1.5},
        {"flip": "often"},
        {"randaugment_ops": -1},
        {"randaugment_ops": 1000},
        {"randaugment_magnitude": 11},
        {"cutout": -0.1},
        {"crop_scale": (0.5, 0.2)},
        {"crop_scale": (0.0, 1.0)},
        {"crop_scale": 0.5},
        {"crop_scale": (0.1, 0.5, 1.0)},
    ],
)
def test_wrong_augmentation_settings_are_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match=next(iter(fields))):
        Augment(**fields)  # type: ignore[arg-type]


def test_a_crop_scale_from_yaml_is_a_tuple_afterwards() -> None:
    assert Augment(crop_scale=[0.5, 1.0]) == Augment(crop_scale=(0.5, 1.0))  # type: ignore[arg-type]
