"""Small summaries are stored exactly, maps in half precision or in 8 bits, and no value is further off than said."""

import numpy as np
import pytest

from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.stored import MOST, as_read, as_stored

CHANNELS, SIDE = 200, 7


def maps(count: int = 3, seed: int = 0) -> np.ndarray:
    """Maps (images, C, h, w) whose channels differ in scale by orders of magnitude, as those of networks do."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-5, 3, (1, CHANNELS, 1, 1))
    return ((rng.standard_normal((count, CHANNELS, SIDE, SIDE)) + rng.normal()) * scale).astype(np.float32)


def pooled(count: int = 3) -> np.ndarray:
    return np.random.default_rng(1).random((count, CHANNELS), np.float32)


def test_small_summaries_are_stored_exactly_and_large_maps_in_half_precision():
    small, large = as_stored([pooled(), maps()])
    assert (small.dtype, large.dtype) == (np.float32, np.float16)
    np.testing.assert_array_equal(as_read([small, large])[0], pooled())
    np.testing.assert_allclose(as_read([small, large])[1], maps(), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("channels", [1, -1])
def test_no_value_in_8_bits_is_off_by_more_than_half_a_step_of_its_channel(channels):
    wanted = maps() if channels == 1 else np.moveaxis(maps(), 1, -1)
    small, codes, low, step = as_stored([pooled(), wanted], "uint8", channels)
    assert (codes.dtype, low.dtype, step.dtype) == (np.uint8, np.float16, np.float16)
    _, found = as_read([small, codes, low, step])
    assert found.dtype == np.float32
    error = np.abs(found.astype(np.float64) - wanted)
    assert (error <= step.astype(np.float64) * 0.5001 + np.abs(wanted) * 1e-6).all()
    positions = (2, 3) if channels == 1 else (1, 2)
    span = wanted.max(axis=positions, keepdims=True) - wanted.min(axis=positions, keepdims=True)
    # The step is no larger than it has to be: what rounding low and step to half precision adds is small.
    assert (step <= span / 255 * 1.01 + np.abs(wanted).max(axis=positions, keepdims=True) / 255 * 1e-3 + 1e-7).all()


def test_8_bits_take_little_more_than_half_the_space():
    half = sum(array.nbytes for array in as_stored([maps()]))
    assert sum(array.nbytes for array in as_stored([maps()], "uint8")) < 0.55 * half


def test_channels_that_are_the_same_everywhere_come_back_as_they_are():
    constant = np.zeros((2, CHANNELS, SIDE, SIDE), np.float32)
    constant[:, 1], constant[:, 2] = 1.5, -3.0
    (found,) = as_read(as_stored([constant], "uint8"))
    np.testing.assert_array_equal(found, constant)


def test_what_half_precision_cannot_hold_is_cut_off_and_never_becomes_nan():
    large = maps()
    large[0, 0, 0, 0], large[1, 1] = 1e9, -1e9
    (found,) = as_read(as_stored([large], "uint8"))
    assert np.isfinite(found).all()
    assert found[0, 0, 0, 0] == pytest.approx(65504, rel=1e-3)
    np.testing.assert_allclose(found[2], large[2], rtol=0.02, atol=20)


def test_an_image_is_stored_the_same_whatever_others_it_is_stored_with():
    together = as_stored([maps(5)], "uint8")
    alone = as_stored([maps(5)[3:4]], "uint8")
    for whole, one in zip(together, alone, strict=True):
        np.testing.assert_array_equal(whole[3:4], one)


def test_a_cache_gives_maps_of_8_bits_back_in_any_order_and_from_another_process(tmp_path):
    wanted = maps(5)
    cache = FeatureCache(tmp_path)
    cache.add(list("abc"), as_stored([pooled(5)[:3], wanted[:3]], "uint8"))
    cache.add(list("de"), as_stored([pooled(5)[3:], wanted[3:]], "uint8"))
    (expected,) = as_read(as_stored([wanted], "uint8"))
    found = FeatureCache(tmp_path).view(list("edcba")).gather(np.array([1, 4, 0]))
    np.testing.assert_array_equal(found[0], pooled(5)[[3, 0, 4]])
    np.testing.assert_array_equal(found[1], expected[[3, 0, 4]])


def test_a_damaged_shard_of_8_bits_is_dropped(tmp_path):
    notes: list[str] = []
    FeatureCache(tmp_path).add(["a"], as_stored([maps(1)], "uint8"))
    (path,) = tmp_path.glob("*.safetensors")
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    assert FeatureCache(tmp_path, note=notes.append).missing(["a"]) == ["a"]
    assert "checksum" in notes[0]


@pytest.mark.parametrize("maps", ["float16", "uint8"])
def test_values_beyond_half_precision_stay_finite(maps):
    tensor = np.zeros((1, 2, 80, 80), np.float32)
    tensor[0, 0, 0] = 1e5, *[-1e5] * 79
    (found,) = as_read(as_stored([tensor], maps))
    assert np.isfinite(found).all()
    assert found.max() == pytest.approx(MOST, rel=0.01)
    assert found.min() == pytest.approx(-MOST, rel=0.01)
