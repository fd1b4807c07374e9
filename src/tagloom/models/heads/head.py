"""What every head has: the contract between a head and the rest of Tagloom."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from tagloom.errors import TagloomError
from tagloom.models.heads.options import check_names, option_names

FACTS = ("in_channels", "classes", "stage_channels", "word_vectors")
"""What the backbone and the labels decide, so that a recipe never names it."""


class Head(nn.Module):
    """A head: from a feature map (B, C, H, W) to one logit per class (B, N).

    It works in two steps. `summarise` reduces the features without any parameters, so that its result can be cached;
    `classify` maps that summary to logits. `forward` is one after the other.

    A head of your own inherits from this class, takes `in_channels`, `classes` and its options, sets `summary` and
    `scales`, and writes both steps; what it does not have it leaves as it is here. The first line of its docstring says
    what it is for.

    Attributes:
        stages: Intermediate stages of the backbone that it reads, counted from 1; most heads read none.
        summary: Names of the tensors that `summarise` gives. A name must say how its tensor is computed: heads with the
            same names share cached features. "pooled" is the mean over positions, "map" the map itself.
        scales: One `FeatureScale` per tensor of the summary, to standardise frozen features.
        takes_words: Whether `classify` also scores words other than those of its classes.
        shared_experts: How many shared experts each layer has; None for a head without experts.
        mixes_per_image: Whether `mixing_amounts` differ from image to image.
    """

    stages: tuple[int, ...] = ()
    summary: tuple[str, ...] = ()
    scales: nn.ModuleList
    takes_words: bool = False
    shared_experts: int | None = None
    mixes_per_image: bool = False

    def forward(self, features: Tensor, *stages: Tensor) -> Tensor:
        """Map features (B, C, H, W) and the maps (B, C_s, H_s, W_s) of `stages` to logits (B, N)."""
        return self.classify(*self.summarise(features, *stages))

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Reduce features (B, C, H, W) and stages to what `classify` needs, without parameters."""
        raise NotImplementedError

    def classify(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Map a summary to logits (B, N), or with words (K, g, d_w) to the logits (B, K · g) of those."""
        raise NotImplementedError

    def class_words(self) -> "ClassWords | None":
        """Give the words of the classes and how queries share them; None for a head without words."""
        return None

    def attention(self, features: Tensor, *stages: Tensor) -> list[Tensor]:
        """Show where each query looks, from a summary: per layer (B, heads, K, positions)."""
        raise TagloomError("this head has no attention: use a query head, such as 'ml-decoder'.")

    def evidence(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Show how much of each logit came from each position of the last map, up to a constant.

        Args:
            features: The last map (B, C, H, W), not its summary.
            stages: The maps (B, C_s, H_s, W_s) of `stages`.
            words: (K, g, d_w), for a head that `takes_words`.

        Returns:
            (B, N, H, W), or with words (B, K · g, H, W).
        """
        raise TagloomError("this head does not say where its logits come from: use method 'eigen-cam' or 'grad-cam++'.")

    def gate_weights(self, features: Tensor, *stages: Tensor) -> list[Tensor]:
        """Show which experts each class uses, from a summary: per layer (B, N, experts), a class's own first."""
        raise TagloomError("this head has no experts: use a query head with readout 'hybrid-sharing'.")

    def mixing_amounts(self, features: Tensor, *stages: Tensor) -> Tensor:
        """Show how much of each stage is mixed in, from a summary: (B, S) per image or (N, S) per class."""
        raise TagloomError("this head has no mixing amounts: use 'layover' with mixing 'image' or 'class'.")

    def refuse_words(self, words: Tensor | None) -> None:
        """Raise an error if words are given to a head that knows its own classes only."""
        if words is not None:
            raise TagloomError("this head knows its own classes only: use 'ml-decoder-words' for any words.")

    @property
    def shows_evidence(self) -> bool:
        """Whether this head has an `evidence` of its own."""
        return type(self).evidence is not Head.evidence

    @classmethod
    def option_names(cls) -> list[str]:
        """List the options that a recipe may give this head."""
        return option_names(cls, FACTS)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Refuse options that this head does not have; their values are checked when it is made."""
        check_names("head option", options, cls.option_names())

    @classmethod
    def needs_words(cls, options: Mapping[str, Any]) -> bool:
        """Say whether this head, with these options, is made from word vectors."""
        return False

    @classmethod
    def purpose(cls) -> str:
        """Say in a line what this head is for: the first line of its docstring."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]


@dataclass(frozen=True)
class ClassWords:
    """The words of a head's classes, laid out query by query.

    Attributes:
        vectors: (K, g, d_w): g slots per query, zeros in a slot without a word.
        slots: (N,) the slot of each class among the K · g: query k, word j is k · g + j.
        fixed_queries: How many queries there always are; None if there may be any number.
        grouping: How other labels are divided among queries of several words: "random" or "consecutive".
        grouping_seed: Decides the "random" grouping.
    """

    vectors: Tensor
    slots: Tensor
    fixed_queries: int | None = None
    grouping: Literal["random", "consecutive"] = "random"
    grouping_seed: int = 0

    @property
    def group_size(self) -> int:
        """Words per query, g."""
        return self.vectors.shape[1]

    def by_class(self) -> Tensor:
        """Give the word of each class, (N, d_w), in the order of the classes."""
        return self.vectors.flatten(0, 1).index_select(0, self.slots)

    def class_logits(self, logits: Tensor) -> Tensor:
        """Pick the logits (B, N) of the classes from those of all slots (B, K · g)."""
        return logits.index_select(1, self.slots)
