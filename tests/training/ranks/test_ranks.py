"""Several processes train as one: the same steps, the same figures, the same decisions."""

import json

import numpy as np
import pytest

from tagloom.metrics import average_precision

COUNT = 21


def results(ranks):
    assert not [rank for rank in ranks if "error" in rank], ranks
    return [rank["result"] for rank in ranks]


def assert_same_weights(ours, theirs, atol=1e-5):
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=atol)


@pytest.fixture(scope="module")
def alone(in_ranks, tmp_path_factory):
    return results(in_ranks("train", 1, tmp_path_factory.mktemp("alone")))[0]


@pytest.fixture(scope="module", params=[2, 3])
def together(request, in_ranks, tmp_path_factory):
    return results(in_ranks("train", request.param, tmp_path_factory.mktemp("together")))


def test_many_processes_end_with_the_weights_of_one_after_51_steps(alone, together):
    """With unknown pairs, two views, accumulation, clipping and an average; the last batch has one image."""
    assert len(together[0]["losses"]) * 3 == 51
    for rank in together:
        assert rank["weights"] == together[0]["weights"]  # bit for bit among themselves
    assert_same_weights(together[0]["weights"], alone["weights"])
    np.testing.assert_allclose(together[0]["losses"], alone["losses"], rtol=0, atol=1e-5)


def test_evaluation_counts_each_of_21_images_once_whatever_the_number_of_processes(alone, together):
    for rank in together:  # every process is told the same figures, which choose the best epoch
        np.testing.assert_allclose(rank["mAP"], alone["mAP"], rtol=0, atol=1e-6)
    assert sum(rank["images"] for rank in together) == alone["images"]  # of steps and of evaluations
    assert [len(rank["logits"]) for rank in together] == [COUNT] + [0] * (len(together) - 1)
    np.testing.assert_allclose(together[0]["logits"], alone["logits"], rtol=0, atol=1e-5)
    assert together[0]["targets"] == alone["targets"]
    scores, targets = np.array(together[0]["logits"]), np.array(together[0]["targets"])
    np.testing.assert_allclose(
        average_precision(scores, targets), average_precision(np.array(alone["logits"]), targets), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3)])
def test_a_run_stopped_with_some_processes_continues_with_others(before, after, alone, in_ranks, tmp_path):
    """Only the last of them is asked to stop: all save and leave together."""
    stopped = in_ranks("train", before, tmp_path, stop_at=20)
    assert [rank.get("error") for rank in stopped] == ["Interrupted"] * before
    assert (tmp_path / "checkpoint" / "last.pt").exists()
    found = results(in_ranks("train", after, tmp_path))[0]
    assert_same_weights(found["weights"], alone["weights"])
    np.testing.assert_allclose(found["losses"], alone["losses"], rtol=0, atol=1e-5)


def test_early_stopping_is_decided_by_all_alike(in_ranks, tmp_path):
    choices = {"patience": 2, "epochs": 17}
    one = results(in_ranks("train", 1, tmp_path / "one", **choices))[0]
    two = results(in_ranks("train", 2, tmp_path / "two", **choices))
    assert len(one["losses"]) < 17
    assert [len(rank["losses"]) for rank in two] == [len(one["losses"])] * 2
    assert_same_weights(two[1]["weights"], one["weights"])


def test_a_loss_that_is_not_finite_in_one_process_stops_all(in_ranks, tmp_path):
    found = in_ranks("train", 2, tmp_path, fault="nan")
    assert [rank.get("error") for rank in found] == ["TrainingError"] * 2
    assert all("the loss is nan" in rank["message"] for rank in found)


def test_an_error_of_the_process_that_writes_is_raised_by_all(in_ranks, tmp_path):
    found = in_ranks("train", 2, tmp_path, fault="disk")
    assert [rank["message"] for rank in found] == ["the disk is full"] * 2


def test_running_statistics_are_averaged_over_processes(in_ranks, tmp_path):
    found = results(in_ranks("train", 2, tmp_path, norm=True, batch=7, epochs=2))
    assert found[0]["weights"] == found[1]["weights"]
    assert np.abs(found[0]["weights"]["1.running_mean"]).max() > 0


def test_only_the_first_process_writes_the_log(in_ranks, tmp_path):
    results(in_ranks("train", 2, tmp_path, epochs=2))
    epochs = [json.loads(line)["epoch"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert epochs == [1, 2]
