"""Many pictures are read in order, ahead of time, and one that cannot be read is reported with its index."""

import io
import itertools
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.data import reading
from tagloom.data.images import open_image
from tagloom.data.reading import Encoded, check_broken, compute_on_pictures, read_pictures, work_on_pictures
from tagloom.data.transforms import augment, decode_size, prepare
from tagloom.errors import DataError, ImageError
from tagloom.recipe.pictures import Augment, Preprocess

PREPROCESS = Preprocess(size=32)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Ten small pictures, each of its own noise."""
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.png" for number in range(10)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(path)
    return paths


def collect(sources, **options):
    """All batches as one: indices, pixels and errors."""
    batches = list(read_pictures(sources, PREPROCESS, **options))
    indices = [index for batch in batches for index in batch.indices]
    pixels = np.concatenate([batch.pixels for batch in batches])
    return indices, pixels, [entry for batch in batches for entry in batch.errors]


def expected(paths):
    return np.stack([prepare(open_image(path), PREPROCESS) for path in paths])


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("batch_size", [1, 3, 10, 64])
def test_pictures_come_in_order_whatever_the_batch_and_the_threads(pictures, batch_size, threads):
    indices, pixels, errors = collect(pictures, batch_size=batch_size, threads=threads)
    assert indices == list(range(10))
    assert not errors
    np.testing.assert_array_equal(pixels, expected(pictures))


def test_paths_bytes_and_images_give_the_same_pixels(pictures):
    path = pictures[0]
    sources = [path, str(path), path.read_bytes(), Image.open(path)]
    _, pixels, _ = collect(sources)
    for row in pixels:
        np.testing.assert_array_equal(row, pixels[0])


def test_an_unreadable_picture_is_reported_with_its_index_and_not_replaced(pictures):
    pictures[3].write_bytes(b"no picture")
    pictures[7].unlink()
    indices, pixels, errors = collect(pictures, batch_size=4)
    assert indices == [0, 1, 2, 4, 5, 6, 8, 9]
    assert [(index, error.reason) for index, error in errors] == [(3, "format"), (7, "missing")]
    assert errors[0][1].path == str(pictures[3])
    np.testing.assert_array_equal(pixels, expected([pictures[index] for index in indices]))


def test_a_batch_of_nothing_but_unreadable_pictures_is_empty_and_shaped(tmp_path):
    (batch,) = read_pictures([tmp_path / "a.png", tmp_path / "b.png"], PREPROCESS)
    assert batch.pixels.shape == (0, 32, 32, 3)
    assert [index for index, _ in batch.errors] == [0, 1]


def test_no_sources_give_no_batches():
    assert list(read_pictures([], PREPROCESS)) == []


def test_an_augmentation_is_drawn_by_index_whatever_the_batches(pictures):
    def augmented(augmentation, **options):
        draw = np.random.default_rng  # of the index
        batches = list(
            work_on_pictures(pictures, PREPROCESS, lambda batch: batch, augmentation=augmentation, draw=draw, **options)
        )
        return np.concatenate([batch.pixels for batch in batches])

    _, plain, _ = collect(pictures)
    np.testing.assert_array_equal(augmented(Augment(flip=1.0)), plain[:, :, ::-1])
    cropping = Augment(flip=0.5, crop_scale=(0.2, 0.6))
    once = augmented(cropping, batch_size=3, threads=1)
    np.testing.assert_array_equal(once, augmented(cropping, batch_size=4, threads=3))
    ours = [
        augment(open_image(path), PREPROCESS, cropping, np.random.default_rng(index))
        for index, path in enumerate(pictures)
    ]
    np.testing.assert_array_equal(once, np.stack(ours))


def test_a_large_jpeg_is_decoded_as_large_as_the_crop_needs():
    rng = np.random.default_rng(0)
    stream = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (512, 512, 3), dtype=np.uint8)).save(stream, "JPEG")
    preprocess = Preprocess(size=32, fit="crop", crop_share=0.25)
    (batch,) = read_pictures([stream.getvalue()], preprocess)
    enough = prepare(open_image(stream.getvalue(), at_least=decode_size(preprocess)), preprocess)
    too_small = prepare(open_image(stream.getvalue(), at_least=(32, 32)), preprocess)
    np.testing.assert_array_equal(batch.pixels[0], enough)
    assert (enough != too_small).any()


def test_a_generator_is_read_only_a_few_batches_ahead(pictures):
    taken = []

    def sources():
        for number in range(1000):
            taken.append(number)
            yield pictures[number % 10]

    batches = read_pictures(sources(), PREPROCESS, batch_size=2)
    next(batches)
    assert len(taken) <= 3 * 2
    batches.close()


def test_leaving_early_ends_the_threads(pictures):
    batches = read_pictures(pictures, PREPROCESS, batch_size=1)
    next(batches)
    batches.close()
    deadline = time.monotonic() + 5
    while any(thread.name.startswith("tagloom-read") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_fault_in_the_sources_reaches_the_caller(pictures):
    def sources():
        yield pictures[0]
        raise RuntimeError("the disk caught fire")

    with pytest.raises(RuntimeError, match="caught fire"):
        list(read_pictures(sources(), PREPROCESS, batch_size=1))


@pytest.mark.parametrize("threads", [1, 3])
def test_work_is_done_in_the_reading_threads_and_given_in_order(pictures, threads):
    def work(batch):
        time.sleep(0.01 * (len(pictures) - batch.indices[0]) / len(pictures))  # the first takes longest
        return threading.current_thread().name, batch.indices

    done = list(work_on_pictures(pictures, PREPROCESS, work, batch_size=2, threads=threads))
    assert [index for _, indices in done for index in indices] == list(range(10))
    names = {name for name, _ in done}
    assert len(names) == threads
    assert all(name.startswith("tagloom-read") for name in names)


def test_a_fault_in_the_work_reaches_the_caller(pictures):
    def work(batch):
        raise RuntimeError("the network caught fire")

    with pytest.raises(RuntimeError, match="caught fire"):
        list(work_on_pictures(pictures, PREPROCESS, work))


def test_encoded_images_that_wait_are_limited_by_their_bytes(pictures, monkeypatch):
    monkeypatch.setattr(reading, "MAX_HELD_BYTES", 4000)
    held, most = 0, []

    def sources():
        nonlocal held
        for _ in range(50):
            held += 1
            most.append(held)
            yield Encoded("a.zip/a.png", pictures[0].read_bytes() + bytes(2000))

    for _ in compute_on_pictures(sources(), PREPROCESS, len, streams=True, threads=4):
        held -= 1
    assert len(most) == 50
    assert max(most) <= 3, "two are more than the limit, and the next waits in its generator"


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_computed_comes_in_order_with_errors_in_their_place(pictures, streams):
    pictures[3].write_bytes(b"no picture")
    sources = [*pictures[:6], ImageError("gone", "missing", "is gone."), *pictures[6:]]
    found = list(compute_on_pictures(sources, PREPROCESS, lambda pixels: pixels, streams=streams, threads=3))
    indices = [index for batch in found for index in batch.indices]
    assert indices == [0, 1, 2, 4, 5, 7, 8, 9, 10]
    pixels = np.concatenate([batch.result for batch in found if batch.result is not None])
    np.testing.assert_array_equal(pixels, expected([sources[index] for index in indices]))
    assert [(index, error.reason) for batch in found for index, error in batch.errors] == [
        (3, "format"),
        (6, "missing"),
    ]
    assert {len(batch.indices) for batch in found} <= ({0, 1} if streams else {9})


def test_streams_compute_in_all_threads_and_batches_in_the_callers(pictures):
    def who(pixels):
        time.sleep(0.02)
        return threading.current_thread()

    def threads(streams):
        found = compute_on_pictures(pictures, PREPROCESS, who, streams=streams, threads=3)
        return {batch.result for batch in found}

    assert len(threads(True)) == 3
    assert threads(False) == {threading.current_thread()}


def test_leaving_early_stops_the_work_of_its_own_threads(pictures):
    stopped, asked, calls = threading.Event(), [], itertools.count()

    def slow(pixels):
        if next(calls) > 0:
            stopped.wait(30)
        return threading.get_ident()

    def stop(threads):
        asked.append(set(threads))
        stopped.set()

    found = compute_on_pictures(pictures, PREPROCESS, slow, streams=True, threads=2, stop=stop)
    first = next(found).result
    started = time.monotonic()
    found.close()
    assert time.monotonic() - started < 10
    assert first in asked[0]


def errors(count: int) -> list[tuple[int, ImageError]]:
    return [(number, ImageError(f"{number}.jpg", "broken", "is cut off.")) for number in range(count)]


@pytest.mark.parametrize(
    ("broken", "count", "allowed"), [(0, 0, 0.05), (0, 10, 0.0), (5, 100, 0.05), (9, 10, 0.9), (9, 10, 1.0)]
)
def test_a_share_up_to_the_allowed_one_passes(broken, count, allowed):
    check_broken(errors(broken), count, allowed, "table.csv", "--more")


@pytest.mark.parametrize(("broken", "count", "allowed"), [(6, 100, 0.05), (1, 10, 0.0), (10, 10, 1.0)])
def test_a_greater_share_and_all_of_them_are_refused(broken, count, allowed):
    with pytest.raises(DataError, match=rf"table\.csv: {broken} of {count} images cannot be read"):
        check_broken(errors(broken), count, allowed, "table.csv", "--more")


def test_the_refusal_lists_the_first_images_and_counts_the_others():
    with pytest.raises(DataError) as caught:
        check_broken(errors(7), 10, 0.05, "table.csv", "--more")
    message = str(caught.value)
    assert "4.jpg: is cut off." in message
    assert "5.jpg" not in message
    assert "and 2 more" in message
    assert "tagloom check" in message
    assert message.endswith("allow more with --more")
