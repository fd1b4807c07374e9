"""Mixed pictures: what is seen, what it is called, and that the chance in it follows from torch's seed."""

import pytest
import torch
from torch import Tensor

from tagloom.training.features.batches import Batch
from tagloom.training.tasks.mixed_pictures import MixedPicturesTask, mix_targets, paste

SIDE = 12


class Told:
    """A task that remembers the batch it was given."""

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        self.batch = batch
        return {}


def flat(values: list[int]) -> Tensor:
    """Pictures of one brightness each, (B, H, W, 3)."""
    return torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, SIDE, SIDE, 3).clone()


def mixed(seed: int = 0, known: Tensor | None = None, **choices: object) -> Batch:
    torch.manual_seed(seed)
    told = Told()
    batch = Batch((flat([0, 100, 200]),), torch.eye(3), known, torch.arange(3))
    MixedPicturesTask(told, **({"mixup": 0.0, "cutmix": 0.0, "competing": True} | choices))(batch)
    return told.batch


@pytest.mark.parametrize("seed", range(8))
def test_blended_brightness_is_what_the_shares_say(seed):
    batch = mixed(seed, mixup=1.0)
    assert batch.targets.sum(dim=1).tolist() == pytest.approx([1, 1, 1])
    expected = batch.targets @ torch.tensor([0.0, 100.0, 200.0])
    assert batch.inputs[0].mean(dim=(1, 2, 3)).tolist() == pytest.approx(expected.tolist(), abs=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_pasted_pictures_keep_every_pixel_and_the_shares_count_them(seed):
    batch = mixed(seed, cutmix=1.0)
    assert batch.inputs[0].dtype == torch.uint8
    assert set(batch.inputs[0].unique().tolist()) <= {0, 100, 200}
    expected = batch.targets @ torch.tensor([0.0, 100.0, 200.0])
    assert batch.inputs[0].float().mean(dim=(1, 2, 3)).tolist() == pytest.approx(expected.tolist(), abs=1e-3)


def test_the_same_seed_mixes_the_same_way_and_both_ways_come():
    one, again = mixed(3, mixup=0.2, cutmix=1.0), mixed(3, mixup=0.2, cutmix=1.0)
    assert torch.equal(one.inputs[0], again.inputs[0])
    assert {mixed(seed, mixup=0.2, cutmix=1.0).inputs[0].dtype for seed in range(12)} == {torch.uint8, torch.float32}


def test_a_box_that_would_leave_the_picture_is_cut_and_the_share_says_what_is_left():
    pictures, share = paste(flat([0]), flat([200]), 0.75, torch.tensor([0.0, 0.0]))
    assert (pictures == 200).sum() == 3 * 3 * 3
    assert share == pytest.approx(1 - 9 / SIDE**2)
    untouched, share = paste(flat([0]), flat([200]), 1.0, torch.tensor([0.5, 0.5]))
    assert share == 1.0
    assert not untouched.any()


def test_where_labels_do_not_compete_those_of_both_are_positive_unless_one_is_hardly_seen():
    other = torch.tensor([1, 0])
    assert mix_targets(torch.eye(2), None, other, 0.7, competing=False)[0].tolist() == [[1, 1], [1, 1]]
    assert mix_targets(torch.eye(2), None, other, 0.9, competing=False)[0].tolist() == [[1, 0], [0, 1]]


def test_a_label_is_known_of_a_mixed_picture_if_one_has_it_or_both_are_known():
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    known = torch.tensor([[True, True, False], [False, True, True]])
    _, mixed_known = mix_targets(targets, known, torch.tensor([1, 0]), 0.5, competing=False)
    assert mixed_known is not None
    assert mixed_known.tolist() == [[True, True, False], [True, True, False]]
