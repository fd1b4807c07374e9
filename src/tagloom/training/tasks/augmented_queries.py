"""Query augmentations: training with other words than the classes' own, so that the head copes with unseen labels.

From ML-Decoder (Ridnik et al., 2021, section 2.3.3 and Figure 8). Noise: a small random change of every word, drawn
again for each batch. Random queries: queries with random words are added to those of the classes. The paper calls their
label "random" and positive; taken literally, what they ask for is present in every image. That taught heads to say yes
to what they do not know, and made seen and unseen labels worse (docs/results.md); "absent" costs less. Words have a
mean square of 1, so both are drawn from N(0, 1).

Beyond the paper: a step may ask for some of the labels only, so that its cost does not grow with their number.
"""

from typing import cast

import torch
from torch import Tensor

from tagloom.errors import RecipeError
from tagloom.losses import Loss
from tagloom.models.heads import ClassWords, Head
from tagloom.recipe.parts import WordSettings
from tagloom.training.features.batches import Batch
from tagloom.training.tasks.supervised import Forward


def check_augmented(head: Head, words: WordSettings) -> None:
    """Refuse to augment the words of a head that takes only its own; called before minutes of reading images."""
    own = head.class_words()
    takes_any = own is not None and head.takes_words and not (words.random_queries and own.fixed_queries)
    if words.augmented and not takes_any:
        raise RecipeError(
            "words.query_noise, words.random_queries and words.labels_per_step need a head whose queries and readout "
            "take any words, such as 'ml-decoder-words'. Set all three to 0."
        )
    if words.labels_per_step and own is not None and own.group_size > 1:
        raise RecipeError(
            "words.labels_per_step needs a query for each label, and this head's queries share theirs among "
            f"{own.group_size}. Use 'ml-decoder-words', or set it to 0."
        )


class AugmentedQueriesTask:
    """Plain training with augmented queries: loss([logits of noisy words, of random ones], [labels, 0 or 1]).

    Args:
        forward: From a batch's inputs and `words` (K, g, d_w) to logits (B, K · g).
        loss: The loss, over any number of labels.
        head: The head that `forward` runs, for its words; it `takes_words`.
        noise: How much of N(0, 1) is added to the words.
        random_queries: How many queries with random words are added, g words each.
        random_present: Whether the label of random words is 1 for every image, or 0.
        labels_per_step: How many labels a step asks for; 0 for all.
    """

    def __init__(
        self,
        forward: Forward,
        loss: Loss,
        head: Head,
        *,
        noise: float,
        random_queries: int,
        random_present: bool = False,
        labels_per_step: int = 0,
    ) -> None:
        self.forward = forward
        self.loss = loss
        self.head = head
        self.noise = noise
        self.random_queries = random_queries
        self.random_label = float(random_present)
        self.labels_per_step = labels_per_step

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give the loss over the labels that are asked for and the random words."""
        own_words = cast(ClassWords, self.head.class_words())
        targets, known = batch.targets, batch.known
        chosen = choose_labels(targets, self.labels_per_step)
        if chosen is None:
            logits, random = self.logits(batch, own_words.vectors)
            logits = own_words.class_logits(logits)
        else:
            logits, random = self.logits(batch, own_words.by_class()[chosen, None])
            targets, known = targets[:, chosen], None if known is None else known[:, chosen]
        targets = torch.cat([targets, torch.full_like(random, self.random_label, dtype=targets.dtype)], dim=1)
        if known is not None:
            known = torch.cat([known, torch.ones_like(random, dtype=torch.bool)], dim=1)
        return {"loss": self.loss(torch.cat([logits, random], dim=1), targets, known)}

    def logits(self, batch: Batch, words: Tensor) -> tuple[Tensor, Tensor]:
        """Give the logits of noisy words (K, g, d_w), (B, K · g), and of random ones, (B, random_queries · g)."""
        # The noise is drawn first: another order would change the results of a seed.
        changed = noisy(words, self.noise)
        asked = torch.cat([changed, words.new_empty(self.random_queries, *words.shape[1:]).normal_()])
        own, random = self.forward(*batch.inputs, words=asked).tensor_split([words.shape[0] * words.shape[1]], dim=1)
        return own, random


def choose_labels(targets: Tensor, most: int) -> Tensor | None:
    """Choose the labels of a step: those of its images first, then others, each at random; None for all.

    Args:
        targets: (B, N), 1 for positive.
        most: How many to choose; 0 for all.

    Returns:
        (most,) their numbers, ascending.
    """
    if most == 0 or targets.shape[1] <= most:
        return None
    rank = torch.rand(targets.shape[1]).to(targets.device) + targets.gt(0.5).any(dim=0)
    return rank.topk(most).indices.sort().values


def noisy(words: Tensor, noise: float) -> Tensor:
    """Add noise to words (K, g, d_w); the zeros that stand for no word stay zeros."""
    if noise == 0:
        return words
    filled = words.ne(0).any(dim=-1, keepdim=True)
    return words + noise * torch.randn_like(words) * filled
