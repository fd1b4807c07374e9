"""A plan is arithmetic that can be repeated by hand, and a profile from anybody is checked."""

import json
from dataclasses import asdict, replace

import pytest

from tagloom.errors import DataError, RecipeError
from tagloom.sizing.estimate import Hardware, Size, estimate
from tagloom.sizing.profile import Profile, read_profile, write_profile

PROFILE = Profile(
    machine="a machine",
    device="cpu",
    source="written for a test",
    network="quick",
    cores=2,
    memory_bytes=10e9,
    decode_rate=50,
    extract_rate=100,
    head_seconds_per_image=0.01,
    head_seconds_per_label=1e-6,
    read_rate=1e8,
    image_bytes=1e5,
    feature_bytes=2e5,
    head_bytes=1e6,
    head_bytes_per_label=1e3,
)
SIZE = Size(images=1_000_000, labels=10_000, epochs=5, views=2, labels_per_image=10)


def stages(found):
    return {stage.name: stage for stage in found.stages}


def test_on_cores_decoding_and_computing_add_up():
    found = estimate(PROFILE, SIZE, Hardware())
    extract, train, predict = found.stages
    # Two views: 2,000,000 pictures at 50 a second on each of 2 cores, then at 100 a second through the backbone.
    assert extract.seconds == 2_000_000 / 100 + 2_000_000 / 100
    # 5,000,000 images at 0.01 s and 10,000 labels at a millionth of a second.
    assert train.seconds == pytest.approx(5_000_000 * (0.01 + 10_000 * 1e-6))
    # Forward only: a third of the head's step.
    assert predict.seconds == pytest.approx(1_000_000 / 100 + 1_000_000 * (1 / 100 + 0.02 / 3))
    assert found.seconds == pytest.approx(extract.seconds + train.seconds + predict.seconds)
    assert found.bottleneck == ("train", "cores, computing")


def test_with_gpus_the_slowest_resource_decides():
    found = stages(estimate(PROFILE, SIZE, Hardware(gpus=4, gpu_rate=1000, cores=16)))
    # A GPU of ten times the rate, four of them at 90 percent: 36 times the profile's device.
    assert found["read and extract"].resources == pytest.approx(
        {"disk": 2_000_000 * 3e5 / 1e8, "cores, decoding": 2_000_000 / 800, "GPUs": 20_000 / 36}
    )
    assert found["read and extract"].seconds == pytest.approx(6000)
    assert found["read and extract"].bottleneck == "disk"
    # 400 GB of features do not stay in 10 GB of memory, so every epoch reads one view of each image again.
    assert found["train"].resources["disk"] == pytest.approx(5_000_000 * 2e5 / 1e8)
    assert found["train"].seconds == pytest.approx(max(10_000, 100_000 / 36))


def test_a_whole_network_is_trained_from_pictures_in_every_epoch():
    found = estimate(PROFILE, replace(SIZE, whole_network=True), Hardware(gpus=1, gpu_rate=100))
    train = stages(found)["train"]
    assert "read and extract" not in stages(found)
    assert train.resources["GPUs"] == pytest.approx(5_000_000 * (0.02 + 3 / 100))
    assert train.resources["cores, decoding"] == pytest.approx(5_000_000 / 100)
    assert found.disk["features"] == 0


def test_disk_memory_and_money():
    found = estimate(PROFILE, SIZE, Hardware(machines=3, price_per_hour=2.0))
    assert found.disk == pytest.approx({"images": 1e11, "features": 4e11, "scores of held-out images": 8e9})
    assert found.memory["label table"] == 1_000_000 * (110 + 5 * 10)
    assert found.memory["head"] == 5 * (1e6 + 1e7)
    assert found.money == pytest.approx(found.seconds / 3600 * 3 * 2.0)
    assert estimate(PROFILE, SIZE, Hardware()).money is None


def test_ten_times_the_images_take_ten_times_as_long_on_the_same_bottleneck():
    hardware = Hardware(gpus=8, gpu_rate=2000, cores=64)
    small, large = (estimate(PROFILE, replace(SIZE, images=count), hardware) for count in (1e7, 1e8))
    assert large.seconds == pytest.approx(10 * small.seconds)
    assert large.bottleneck == small.bottleneck


def test_a_profile_is_read_as_it_was_written(tmp_path):
    write_profile(PROFILE, tmp_path / "new" / "profile.json")
    assert read_profile(tmp_path / "new" / "profile.json") == PROFILE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"decode_rate": 0}, "decode_rate is 0"),
        ({"read_rate": -1.0}, "read_rate is -1.0"),
        ({"cores": "many"}, "expected"),
        ({"format": 2}, "has format 2"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_profile_from_anybody_is_checked(tmp_path, change, says):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(asdict(PROFILE) | change))
    with pytest.raises(DataError, match=says):
        read_profile(path)


def test_a_missing_profile_says_how_to_measure_one(tmp_path):
    with pytest.raises(DataError, match=r"tagloom plan --measure --profile .*there\.json"):
        read_profile(tmp_path / "there.json")


@pytest.mark.parametrize("wrong", [{"images": 0}, {"labels": -1}, {"epochs": float("nan")}, {"views": 0}])
def test_a_size_that_cannot_be_is_refused(wrong):
    with pytest.raises(RecipeError):
        replace(SIZE, **wrong)
