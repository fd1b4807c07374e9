"""The query heads of the papers: each is its equation and its choice of queries, decoder and readout.

Every option of `QueryHead` and of the chosen parts can still be set, so a new combination is one line of a recipe.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tagloom.models.heads.queries import WordVectors
from tagloom.models.heads.query_head import QueryHead
from tagloom.recipe.head_parts import part_options


class Preset(QueryHead):
    """A `QueryHead` with a paper's defaults. Each can be overridden, also single options of a part.

    Attributes:
        choices: Options of the head, with a name for each part.
    """

    choices: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        in_channels: int,
        classes: int,
        stage_channels: Sequence[int] = (),
        word_vectors: WordVectors | None = None,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, classes, stage_channels, word_vectors, **{**self.choices, **options})

    @classmethod
    def option_names(cls) -> list[str]:
        """List the options of `QueryHead`: a preset changes their defaults only."""
        return QueryHead.option_names()

    @classmethod
    def default_part(cls, kind: str) -> dict[str, Any]:
        """Give this preset's choice of a part, as a dict with its `name`."""
        return part_options(kind, cls.choices[kind])


class MLDecoder(Preset):
    """ML-Decoder: its cost does not grow with the labels (Ridnik et al., 2021, Eq. 4).

    E = ReLU(W · features + b); q ← LN(q + dropout(q)); q ← LN(q + attention(q, E, E)); q ← LN(q + FFN(q));
    logit_i = (W_k · q_k)_j + b_i for class i, the j-th of group k.
    """

    choices: ClassVar[Mapping[str, Any]] = {"queries": "fixed", "decoder": "cross-attention", "readout": "group"}


class MLDecoderSmall(Preset):
    """ML-Decoder for CPUs and small data (width 256, feed_forward 512)."""

    choices: ClassVar[Mapping[str, Any]] = {
        "width": 256,
        "queries": "fixed",
        "decoder": {"name": "cross-attention", "feed_forward": 512},
        "readout": "group",
    }


class MLDecoderWords(Preset):
    """ML-Decoder with word queries: any labels, also ones that were never trained (its section 2.3.3).

    q_i = ReLU(W · word_i + b), then as ML-Decoder; logit_i = w · q_i + c with one w for all. A label's score does not
    depend on which other labels are asked for. Give `word_vectors`; a recipe gets them from `words.source`.
    """

    choices: ClassVar[Mapping[str, Any]] = {"queries": "words", "decoder": "cross-attention", "readout": "shared"}


class MLDecoderWordsGrouped(Preset):
    """ML-Decoder with several words per query, for very many labels (its Eq. 5 and 6).

    q_k = concat(W_a · word_i for i in group k), then as ML-Decoder; logit_i = (W_b · word_i) · q_k + c.
    """

    choices: ClassVar[Mapping[str, Any]] = {"queries": "words", "decoder": "cross-attention", "readout": "words"}


class TransformerDecoder(Preset):
    """The transformer decoder that ML-Decoder is measured against (its Eq. 2).

    E = ReLU(W · features + b); q ← LN(q + attention(q, q, q)); q ← LN(q + attention(q, E, E)); q ← LN(q + FFN(q));
    logit_i = w_i · q_i + b_i. Self-attention makes it quadratic in the labels.
    """

    choices: ClassVar[Mapping[str, Any]] = {
        "queries": "learnable",
        "decoder": "self-attention",
        "readout": "per-class",
    }


class Query2Label(Preset):
    """Query2Label: an encoder, then a decoder that starts from zero (Liu et al., 2021).

    E = W · features + b; E ← LN(E + attention(E + s, E + s, E)); E ← LN(E + FFN(E)), with sine positions s;
    from t = 0, per decoder layer t ← LN(t + attention(t + q, E + s, E)); t ← LN(t + FFN(t));
    logit_i = w_i · LN(t)_i + b_i. With decoder "self-attention" every decoder layer but the first begins with
    t ← LN(t + attention(t + q, t + q, t)).
    """

    choices: ClassVar[Mapping[str, Any]] = {
        "width": None,
        "rectify": False,
        "queries": "learnable",
        "decoder": {
            "name": "cross-attention",
            "layers": 2,
            "encoder_layers": 1,
            "attention_heads": 4,
            "feed_forward": None,
            "queries_as_position": True,
            "positions": True,
        },
        "readout": "per-class",
    }


class HSQ(Preset):
    """HSQ: each label's own experts and shared ones read Query2Label's tokens (Yin et al., 2024).

    The tokens t of Query2Label go through layers of hybrid sharing (`experts`), by default with 16 shared experts, 1 of
    each label's own and widths 64 and 16, then logit_i = w_i · t_i + b_i. Readout "linear-layers" is its HSQ-Linear.
    """

    choices: ClassVar[Mapping[str, Any]] = {**Query2Label.choices, "readout": "hybrid-sharing"}


class TF(Preset):
    """TF: class tokens inside an encoder (Xu et al., CPSD, 2022, section 4.1, as in its released code).

    x = [q, W · features + b]; per layer x ← x + attention(LN(x)) with 4 heads of width D each; x ← x + FFN(LN(x)) with
    GELU; logit_i = w · x_i + c with one w for all. The paper's class tokens are GloVe words: set queries "words" and
    give `word_vectors`.
    """

    choices: ClassVar[Mapping[str, Any]] = {
        "width": 1024,
        "rectify": False,
        "queries": "learnable",
        "decoder": {
            "name": "tokens",
            "encoder_layers": 3,
            "attention_heads": 4,
            "head_width": 1024,
            "attention_bias": False,
            "feed_forward": 1024,
            "activation": "gelu",
            "norm_first": True,
        },
        "readout": "shared",
    }
