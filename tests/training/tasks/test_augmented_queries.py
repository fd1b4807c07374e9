"""Query augmentations: noise on words, and random words that are in no image, or in every one."""

import pytest
import torch
from torch import Tensor

from tagloom.errors import RecipeError
from tagloom.losses import create_loss
from tagloom.models.heads import Head, create_head
from tagloom.recipe.parts import WordSettings
from tagloom.training.features.batches import Batch
from tagloom.training.tasks.augmented_queries import AugmentedQueriesTask, check_augmented, choose_labels, noisy
from tagloom.training.tasks.supervised import SupervisedTask

LOSS = create_loss("asymmetric")
WORDS = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


def make(name: str = "ml-decoder-words", **options: object) -> Head:
    torch.manual_seed(0)
    decoder = {"attention_heads": 2, "feed_forward": 8}
    return create_head(name, in_channels=6, classes=7, word_vectors=WORDS, width=8, decoder=decoder, **options).eval()


def batch(known: Tensor | None = None) -> Batch:
    features = torch.randn(4, 6, 3, 3, generator=torch.Generator().manual_seed(1))
    return Batch((features,), torch.eye(4, 7), known, torch.arange(4))


def task(head: Head, noise: float = 0.0, random: int = 0, loss=LOSS, present: bool = False) -> AugmentedQueriesTask:
    return AugmentedQueriesTask(head.classify, loss, head, noise=noise, random_queries=random, random_present=present)


def test_without_noise_and_random_queries_it_is_plain_training():
    for head in (make(), make("ml-decoder-words-grouped", readout={"groups": 3})):
        plain = SupervisedTask(head.classify, LOSS)(batch())
        torch.testing.assert_close(task(head)(batch()), plain)


@pytest.mark.parametrize("present", [False, True])
def test_random_queries_have_one_label_for_every_image(present):
    handed: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def noting(logits: Tensor, targets: Tensor, known: Tensor | None) -> Tensor:
        handed.append((logits, targets, known))
        return logits.sum()

    known = torch.ones(4, 7, dtype=torch.bool)
    known[0, 3] = False
    head = make()
    task(head, random=5, loss=noting, present=present)(batch(known))
    logits, targets, seen = handed[0]
    assert logits.shape == targets.shape == seen.shape == (4, 12)
    torch.testing.assert_close(logits[:, :7], head.classify(*batch().inputs))
    assert torch.equal(targets[:, :7], batch().targets)
    assert (targets[:, 7:] == present).all()
    assert torch.equal(seen[:, :7], known)
    assert seen[:, 7:].all()
    assert logits[:, 7:].std(dim=1).min() > 0, "five different words were drawn"


def test_random_queries_of_groups_are_groups_of_random_words():
    sizes: list[int] = []
    head = make("ml-decoder-words-grouped", readout={"groups": 3})
    task(head, random=2, loss=lambda logits, targets, known: sizes.append(logits.shape[1]) or logits.sum())(batch())
    assert sizes == [7 + 2 * 3]


def test_noise_changes_the_words_again_for_each_batch_by_its_amount():
    head = make()
    torch.manual_seed(3)
    first, second = (task(head, noise=0.5).logits(batch(), head.class_words().vectors)[0] for _ in range(2))
    plain = head.classify(*batch().inputs)
    assert not torch.allclose(first, plain)
    assert not torch.allclose(first, second)
    words = torch.ones(200, 1, 300)
    assert abs(float((noisy(words, 0.1) - words).std()) - 0.1) < 0.002
    assert torch.equal(noisy(words, 0.0), words)


def test_noise_leaves_the_zeros_of_no_word_alone():
    words = torch.ones(2, 3, 4)
    words[1, 2] = 0
    changed = noisy(words, 1.0)
    assert (changed[1, 2] == 0).all()
    assert (changed[:, :2] != 1).all()


def test_the_words_themselves_stay_as_they_are():
    head = make()
    before = head.words.clone()
    task(head.train(), noise=0.3, random=2)(batch())["loss"].backward()
    assert torch.equal(head.words, before)
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_a_step_asks_for_the_labels_of_its_images_and_some_others():
    targets = torch.zeros(3, 50)
    targets[0, [7, 30]] = 1
    targets[2, 49] = 1
    drawn = set()
    for seed in range(40):
        torch.manual_seed(seed)
        chosen = choose_labels(targets, 5).tolist()
        assert {7, 30, 49} <= set(chosen)
        assert chosen == sorted(set(chosen))
        assert len(chosen) == 5
        drawn |= set(chosen)
    assert len(drawn) > 30, "the others differ from step to step"
    assert len(choose_labels(torch.ones(2, 9), 4)) == 4, "more labels in the images than are asked for"
    assert choose_labels(targets, 0) is None
    assert choose_labels(targets, 50) is None


def test_the_loss_of_some_labels_is_the_loss_over_these_columns():
    head, known = make(), torch.ones(4, 7, dtype=torch.bool)
    known[1, 1] = False
    torch.manual_seed(3)
    sampled = AugmentedQueriesTask(head.classify, LOSS, head, noise=0.0, random_queries=0, labels_per_step=5)
    found = sampled(batch(known))["loss"]
    torch.manual_seed(3)
    chosen = choose_labels(batch().targets, 5)
    logits = head.classify(*batch().inputs)
    torch.testing.assert_close(found, LOSS(logits[:, chosen], batch().targets[:, chosen], known[:, chosen]))


def test_labels_that_share_a_query_cannot_be_asked_for_one_by_one():
    words = WordSettings(labels_per_step=3)
    check_augmented(make(), words)
    with pytest.raises(RecipeError, match=r"a query for each label.*ml-decoder-words"):
        check_augmented(make("ml-decoder-words-grouped", readout={"groups": 3}), words)
