"""The named query heads: `query` composes queries, decoder and readout; each preset is `query` with a paper's defaults.

So every option works with every head, and a new combination is one line of a recipe.
"""

from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from tagloom.errors import RecipeError
from tagloom.labels.groups import Grouping, lay_out
from tagloom.models.heads.decoder import create_decoder
from tagloom.models.heads.pooling import choose_poolings
from tagloom.models.heads.queries import WordVectors, create_queries, word_tensor
from tagloom.models.heads.query_head import QueryHead
from tagloom.models.heads.readout import SharedReadout, WordReadout, create_readout


def query(
    in_channels: int,
    classes: int,
    stage_channels: Sequence[int] = (),
    queries: str = "learnable",
    decoder: str = "cross-attention",
    readout: str = "per-class",
    width: int | None = 768,
    feed_forward: int | None = 2048,
    attention_heads: int = 8,
    encoder_layers: int | None = None,
    decoder_layers: int | None = None,
    queries_as_position: bool = False,
    positions: bool = False,
    rectify: bool = True,
    dropout: float = 0.1,
    feature_dropout: float = 0.0,
    groups: int | None = None,
    grouping: Grouping | None = None,
    grouping_seed: int | None = None,
    shared_experts: int | None = None,
    task_experts: int | None = None,
    shared_input: str | None = None,
    layer_widths: Sequence[int] | None = None,
    gate_hidden: int | None = None,
    classifier_hidden: int | None = None,
    readout_dropout: float | None = None,
    word_vectors: WordVectors | None = None,
    stages: Sequence[int] = (),
    stage_pooling: str = "mean",
) -> QueryHead:
    """Compose a head of any queries, decoder and readout that fit together.

    Args:
        in_channels: Channels C of the feature map.
        classes: Number of labels N.
        stage_channels: Channels of every stage of the backbone, stage 1 first; only for `stages`.
        queries: "learnable", "fixed" (random, frozen) or "words" (of `word_vectors`, joined where classes share one).
        decoder: "cross-attention", "self-attention" (among the queries, then cross-attention), or "tokens" (queries and
            features together through encoder layers).
        readout: "per-class", "group", "shared", "words", "hybrid-sharing" or "linear-layers".
        width: Token width D; None for C.
        feed_forward: Hidden width of feed-forward layers; None for 4 D.
        attention_heads: Heads of every attention; must divide the width.
        encoder_layers: Self-attention layers over the features: by default none, and 3 for "tokens".
        decoder_layers: Layers in which the queries read the features: by default 1; "tokens" has none.
        queries_as_position: Start from zero and add the queries wherever the tokens ask (DETR, Query2Label).
        positions: Add 2-D sine positions to keys.
        rectify: ReLU after the embedding of the features.
        dropout: On every residual branch and in feed-forward layers.
        feature_dropout: Share of the incoming map's channels that are dropped whole.
        groups: Number of queries K; for readouts "group" and "words" by default min(100, N), for "shared" and
            "hybrid-sharing" N.
        grouping: Which classes share a query: "random" (default), "consecutive", or a list of lists of class numbers.
        grouping_seed: Decides the "random" groups; 0 by default.
        shared_experts: Of readout "hybrid-sharing": experts per layer that all labels share; 16 by default.
        task_experts: Of readout "hybrid-sharing": experts per layer of each label's own; 1 by default.
        shared_input: Of readout "hybrid-sharing": what shared experts read for a label, "shared" (the shared branch, by
            default) or "task" (the label's own tokens).
        layer_widths: Of readouts "hybrid-sharing" and "linear-layers": width of each layer; 64 and 16 by default.
        gate_hidden: Of readout "hybrid-sharing": hidden width of the gates; None for linear ones.
        classifier_hidden: Of readout "hybrid-sharing": hidden width of the classifiers; None for linear ones.
        readout_dropout: Of readout "hybrid-sharing": on what its layers read and pass on; none by default.
        word_vectors: (N, d_w), one row per class; for queries or readout "words", and only for them.
        stages: Intermediate stages of the backbone, each of which adds one token to the features; none by default.
        stage_pooling: How a stage becomes that token: "mean", "max", "gem", "mean+max" or "flatten".
    """
    width = in_channels if width is None else width
    sizes = {"width": width, "feed_forward": feed_forward, "attention_heads": attention_heads, "groups": groups}
    _check_whole(sizes, least=1)
    _check_whole({"encoder_layers": encoder_layers, "decoder_layers": decoder_layers, "grouping_seed": grouping_seed})
    _check_share({"dropout": dropout, "feature_dropout": feature_dropout, "readout_dropout": readout_dropout or 0.0})
    _check_whole({"gate_hidden": gate_hidden, "classifier_hidden": classifier_hidden, "task_experts": task_experts}, 1)
    _check_whole({"shared_experts": shared_experts})
    _check_widths(layer_widths)
    words = None
    if "words" in (queries, readout):
        words = word_tensor(word_vectors, classes)
    elif word_vectors is not None:
        raise RecipeError("word_vectors are given, but nothing uses them: set queries or readout to words.")
    asked_by = create_readout(
        readout,
        width,
        classes,
        word_size=words.shape[1] if words is not None and readout == "words" else None,
        groups=groups,
        grouping=grouping,
        grouping_seed=grouping_seed,
        shared_experts=shared_experts,
        task_experts=task_experts,
        shared_input=shared_input,
        layer_widths=layer_widths,
        gate_hidden=gate_hidden,
        classifier_hidden=classifier_hidden,
        readout_dropout=readout_dropout,
    )
    word_places = None
    if words is not None:
        words, word_places = _by_query(words, asked_by)
    poolings = choose_poolings(stages, stage_pooling, stage_channels=stage_channels, in_channels=in_channels)
    return QueryHead(
        in_channels,
        width,
        create_queries(queries, cast(int, asked_by.queries), width, words),
        create_decoder(
            decoder,
            width,
            attention_heads=attention_heads,
            feed_forward=4 * width if feed_forward is None else feed_forward,
            dropout=dropout,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            queries_as_position=queries_as_position,
            positions=positions,
        ),
        asked_by,
        rectify=rectify,
        feature_dropout=feature_dropout,
        poolings=poolings,
        words=words,
        word_places=word_places,
    )


ml_decoder = partial(query, queries="fixed", readout="group")
ml_decoder.__doc__ = """ML-Decoder: its cost does not grow with the labels (Ridnik et al., 2021, Eq. 4).

E = ReLU(W · features + b); q ← LN(q + dropout(q)); q ← LN(q + attention(q, E, E)); q ← LN(q + FFN(q));
logit_i = (W_k · q_k)_j + b_i for class i, the j-th of group k.
"""

ml_decoder_small = partial(ml_decoder, width=256, feed_forward=512)
ml_decoder_small.__doc__ = """ML-Decoder for CPUs and small data (width 256, feed_forward 512)."""

ml_decoder_words = partial(query, queries="words", readout="shared")
ml_decoder_words.__doc__ = """ML-Decoder of words: any labels, also ones that were never trained (its section 2.3.3).

q_i = ReLU(W · word_i + b), then as ML-Decoder; logit_i = w · q_i + c with one w for all. A label's score does not
depend on which other labels are asked for. Give `word_vectors`; a recipe gets them from `words.source`.
"""

ml_decoder_words_grouped = partial(query, queries="words", readout="words")
ml_decoder_words_grouped.__doc__ = """ML-Decoder with several words per query, for very many labels (its Eq. 5 and 6).

q_k = concat(W_a · word_i for i in group k), then as ML-Decoder; logit_i = (W_b · word_i) · q_k + c.
"""

transformer_decoder = partial(query, decoder="self-attention")
transformer_decoder.__doc__ = """The transformer decoder that ML-Decoder is measured against (its Eq. 2).

E = ReLU(W · features + b); q ← LN(q + attention(q, q, q)); q ← LN(q + attention(q, E, E)); q ← LN(q + FFN(q));
logit_i = w_i · q_i + b_i. Self-attention makes it quadratic in the labels.
"""

query2label = partial(
    query,
    width=None,
    feed_forward=None,
    attention_heads=4,
    encoder_layers=1,
    decoder_layers=2,
    queries_as_position=True,
    positions=True,
    rectify=False,
)
query2label.__doc__ = """Query2Label: an encoder, then a decoder that starts from zero (Liu et al., 2021).

E = W · features + b; E ← LN(E + attention(E + s, E + s, E)); E ← LN(E + FFN(E)), with sine positions s;
from t = 0, per decoder layer t ← LN(t + attention(t + q, E + s, E)); t ← LN(t + FFN(t));
logit_i = w_i · LN(t)_i + b_i. With decoder "self-attention" every decoder layer but the first begins with
t ← LN(t + attention(t + q, t + q, t)).
"""

hsq = partial(query2label, readout="hybrid-sharing")
hsq.__doc__ = """HSQ: experts of each label's own and shared ones read Query2Label's tokens (Yin et al., 2024).

The tokens t of Query2Label go through layers of hybrid sharing (`experts`), by default with 16 shared experts, 1 of
each label's own and widths 64 and 16, then logit_i = w_i · t_i + b_i. Readout "linear-layers" is its HSQ-Linear.
"""

tf = partial(
    query,
    decoder="tokens",
    width=1024,
    feed_forward=None,
    attention_heads=4,
    encoder_layers=3,
    positions=True,
    rectify=False,
)
tf.__doc__ = """TF: class tokens inside an encoder (Xu et al., CPSD, 2022, section 4.1).

x = [q, W · features + b]; per layer x ← LN(x + attention(x + s, x + s, x)); x ← LN(x + FFN(x)), with sine positions
s for features and none for class tokens; logit_i = w_i · x_i + b_i. The paper's class tokens are words: take
queries "words" with `word_vectors`.
"""


def _by_query(words: Tensor, readout: nn.Module) -> tuple[Tensor, Tensor]:
    """Lay the words (N, d_w) of the classes out query by query.

    Returns:
        (K, g, d_w), zeros where a group has fewer than g; and the places (N,) of the classes among the K · g.
    """
    group_of = getattr(readout, "group_of", None)
    if isinstance(readout, SharedReadout | WordReadout):
        size, places = readout.group_size, readout.places
    elif group_of is None:
        size, places = 1, torch.arange(len(words))
    else:
        parts = [torch.nonzero(group_of == number).flatten().tolist() for number in range(cast(int, readout.queries))]
        size, order = lay_out(parts)
        places = torch.tensor(order)
    rows = words.new_zeros(cast(int, readout.queries) * size, words.shape[1])
    places = places.to(rows.device)
    return rows.index_copy(0, places, words).view(-1, size, words.shape[1]), places.clone()


def _check_whole(options: dict[str, int | None], least: int = 0) -> None:
    for name, value in options.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise RecipeError(f"head option {name} is {value!r}; it must be a whole number from {least} on.")


def _check_widths(widths: Sequence[int] | None) -> None:
    if widths is None:
        return
    if not isinstance(widths, list | tuple) or not widths:
        raise RecipeError(f"head option layer_widths is {widths!r}; it must be a list of widths, for example [64, 16].")
    for width in widths:
        _check_whole({"layer_widths": width}, least=1)


def _check_share(options: dict[str, float]) -> None:
    for name, value in options.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
            raise RecipeError(f"head option {name} is {value!r}; it must be a number from 0 up to, not including, 1.")
