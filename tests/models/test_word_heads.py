"""Heads with words: any labels, in any number and order, each scored alone; and what transfers to unseen words."""

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from tagloom.errors import RecipeError, TagloomError
from tagloom.losses import asymmetric_loss
from tagloom.models.heads import create_head

CHANNELS, WORD_SIZE = 12, 6
DECODER = {"feed_forward": 32, "attention_heads": 2, "dropout": 0.0}
SIZES = {"width": 32, "decoder": DECODER}
WORDS = torch.randn(9, WORD_SIZE, generator=torch.Generator().manual_seed(1))


def make(name: str = "ml-decoder-words", words: Tensor = WORDS, **options: object) -> nn.Module:
    torch.manual_seed(0)
    head = create_head(name, in_channels=CHANNELS, classes=len(words), word_vectors=words, **SIZES | options)
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.5)
    return head.eval()


def features(batch: int = 3) -> Tensor:
    return torch.randn(batch, CHANNELS, 3, 3, generator=torch.Generator().manual_seed(batch))


@torch.no_grad()
def test_a_labels_score_does_not_depend_on_what_else_is_asked():
    head = make()
    every = torch.randn(500, 1, WORD_SIZE, generator=torch.Generator().manual_seed(2))
    together = head.classify(features(), words=every)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(3))
    shuffled = head.classify(features(), words=every[order])
    torch.testing.assert_close(shuffled, together[:, order], rtol=0, atol=1e-5)
    for place in (0, 17, 499):
        alone = head.classify(features(), words=every[place : place + 1])
        torch.testing.assert_close(alone[:, 0], together[:, place], rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ml-decoder-words", {}),
        ("ml-decoder-words-grouped", {"readout": {"groups": 4}}),
        ("ml-decoder-words-grouped", {"readout": {"name": "shared", "groups": 4}}),
        ("ml-decoder-words-grouped", {"readout": {"groups": 4}, "queries": "learnable"}),
    ],
)
def test_asked_for_its_own_words_a_head_says_what_it_says_of_its_classes(name, options):
    head = make(name, **options)
    asked = head.classify(features(), words=head.words.clone())
    words = head.class_words()
    torch.testing.assert_close(words.class_logits(asked), head(features()))
    torch.testing.assert_close(words.by_class(), WORDS)
    assert words.group_size == words.vectors.shape[1] == head.readout.group_size
    assert (words.fixed_queries is None) == ("queries" not in options)


def test_words_are_saved_but_not_trained():
    head = make()
    assert "words" in head.state_dict()
    assert "words" not in dict(head.named_parameters())


@pytest.mark.parametrize(
    "options",
    [
        {"readout": "group"},
        {"readout": "per-class"},
        {"decoder": {"name": "self-attention", **DECODER}},
        {"decoder": {"name": "tokens", **DECODER}},
    ],
)
def test_heads_whose_scores_would_mean_nothing_for_other_words_refuse_them(options):
    head = make(**options)
    assert not head.takes_words
    with pytest.raises(TagloomError, match="its own classes only"):
        head.classify(features(), words=head.words)


def test_heads_without_words_take_none():
    with pytest.raises(RecipeError, match="has no words"):
        create_head("gap", in_channels=CHANNELS, classes=9, word_vectors=WORDS)
    with pytest.raises(RecipeError, match="words\\.source"):
        create_head("ml-decoder-words", in_channels=CHANNELS, classes=9)


def planted(words: Tensor, images: int, seed: int) -> tuple[Tensor, Tensor]:
    """Maps in which every label that holds adds a linear image of its word at some place, and the labels."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(WORD_SIZE, CHANNELS, generator=torch.Generator().manual_seed(7))
    targets = (torch.rand(images, len(words), generator=generator) < 0.08).float()
    maps = 0.3 * torch.randn(images, CHANNELS, 9, generator=generator)
    for image, label in targets.nonzero().tolist():
        maps[image, :, int(torch.randint(9, (), generator=generator))] += words[label] @ mixing
    return maps.view(images, CHANNELS, 3, 3), targets


def mean_precision(logits: Tensor, targets: Tensor) -> float:
    scores = [average_precision_score(t, s) for t, s in zip(targets.T.numpy(), logits.T.numpy(), strict=True)]
    return sum(scores) / len(scores)


@pytest.mark.parametrize("name", ["ml-decoder-words", "ml-decoder-words-grouped"])
def test_what_was_learned_from_seen_words_holds_for_unseen_ones(name):
    words = torch.randn(48, WORD_SIZE, generator=torch.Generator().manual_seed(5))
    seen, unseen = words[:40], words[40:]
    torch.manual_seed(0)
    options = {} if name == "ml-decoder-words" else {"readout": {"groups": 20}}
    head = create_head(name, in_channels=CHANNELS, classes=40, word_vectors=seen, **SIZES | options)
    optimiser = torch.optim.AdamW(head.parameters(), 3e-3)
    maps, targets = planted(seen, 1024, seed=0)
    for step in range(240):
        rows = torch.arange(step * 64, step * 64 + 64) % 1024
        loss = asymmetric_loss(head(maps[rows]), targets[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    maps, targets = planted(unseen, 512, seed=1)
    size = head.readout.group_size
    with torch.no_grad():
        scores = head.eval().classify(maps, words=unseen.view(-1, size, WORD_SIZE))
    chance = targets.mean().item()
    assert mean_precision(scores, targets) > 3 * chance
