"""The query head: queries x decoder x readout."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.checks import check_number, check_whole
from tagloom.errors import RecipeError
from tagloom.models.heads.decoder import CrossAttentionDecoder, Decoder, SelfAttentionDecoder
from tagloom.models.heads.experts import HybridSharingReadout, LinearLayersReadout
from tagloom.models.heads.head import ClassWords, Head
from tagloom.models.heads.memo import Memo
from tagloom.models.heads.options import PartTable, check_names
from tagloom.models.heads.pooling import choose_poolings
from tagloom.models.heads.queries import FixedQueries, LearnableQueries, Queries, WordVectors, word_queries, word_tensor
from tagloom.models.heads.readout import GroupReadout, PerClassReadout, Readout, SharedReadout, WordReadout
from tagloom.models.heads.scale import FeatureScale
from tagloom.models.heads.token_encoder import TokenEncoder
from tagloom.models.heads.trace import Trace
from tagloom.recipe.head_parts import part_options

Part = str | Mapping[str, Any]
"""A part of a query head: its name, or a dict of its options and `name`."""

QUERIES = PartTable(
    "queries",
    {"learnable": LearnableQueries, "fixed": FixedQueries, "words": word_queries},
    facts=("count", "width", "words"),
)
DECODERS = PartTable(
    "decoder",
    {"cross-attention": CrossAttentionDecoder, "self-attention": SelfAttentionDecoder, "tokens": TokenEncoder},
    facts=("width",),
)
READOUTS = PartTable(
    "readout",
    {
        "per-class": PerClassReadout,
        "group": GroupReadout,
        "shared": SharedReadout,
        "words": WordReadout,
        "hybrid-sharing": HybridSharingReadout,
        "linear-layers": LinearLayersReadout,
    },
    facts=("width", "classes", "word_size"),
)
PART_TABLES = (QUERIES, DECODERS, READOUTS)


class QueryHead(Head):
    """Any queries, decoder and readout that fit together.

    E = embed(standardise(features)); logits = readout(decoder(queries, E)).

    Every pooled stage p_s becomes one more token W_s · standardise(p_s) + b_s after those of the map, rectified like
    them. A part is given by name, or as a dict of its options and `name`: {"name": "group", "groups": 20}.

    Args:
        in_channels: Channels C of the feature map.
        classes: Number of classes N.
        stage_channels: Channels of every stage of the backbone, stage 1 first; needed for `stages` only.
        word_vectors: (N, d_w), one row per class; needed if queries or readout are "words", and only then.
        queries: "learnable", "fixed" (random, frozen) or "words" (of `word_vectors`, joined if classes share a query).
        decoder: "cross-attention", "self-attention" (among the queries, then cross-attention), or "tokens" (queries and
            features together through encoder layers).
        readout: "per-class", "group", "shared", "words", "hybrid-sharing" or "linear-layers".
        width: Token width D; None for C.
        rectify: ReLU after the embedding of the features.
        feature_dropout: Share of the channels of the incoming map that are dropped as a whole.
        stages: Intermediate stages of the backbone, each of which adds one token to the features.
        stage_pooling: How a stage becomes that token: "mean", "max", "gem", "mean+max" or "flatten".

    Attributes:
        words: (K, g, d_w) the words of the classes, query by query, zeros if a group has fewer than g; None for a head
            without words. They are saved with the head and never trained.
        word_slots: (N,) the slot of each class among the K · g.

    >>> head = QueryHead(8, 30, queries="fixed", readout={"name": "group", "groups": 10}, width=16)
    >>> head(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([2, 30])
    """

    words: Tensor | None
    word_slots: Tensor | None

    def __init__(
        self,
        in_channels: int,
        classes: int,
        stage_channels: Sequence[int] = (),
        word_vectors: WordVectors | None = None,
        *,
        queries: Part = "learnable",
        decoder: Part = "cross-attention",
        readout: Part = "per-class",
        width: int | None = 768,
        rectify: bool = True,
        feature_dropout: float = 0.0,
        stages: Sequence[int] = (),
        stage_pooling: str = "mean",
    ) -> None:
        super().__init__()
        width = in_channels if width is None else width
        check_whole("head option width", width, 1)
        check_number("head option feature_dropout", feature_dropout, 0.0, 1.0, below=True)
        vectors = _checked_words(word_vectors, classes, self.needs_words({"queries": queries, "readout": readout}))
        word_size = None if vectors is None else vectors.shape[1]
        # The readout decides how many queries there are, and which classes share one.
        presets = {table.kind: self.default_part(table.kind) for table in PART_TABLES}
        sizes = {"width": width, "classes": classes, "word_size": word_size}
        reads = cast(Readout, READOUTS.create(readout, presets["readout"], **sizes))
        words, word_slots = (None, None) if vectors is None else _by_query(vectors, reads)
        asks = cast(Queries, QUERIES.create(queries, presets["queries"], count=reads.queries, width=width, words=words))
        decodes = cast(Decoder, DECODERS.create(decoder, presets["decoder"], width=width))
        self.poolings = choose_poolings(stages, stage_pooling, stage_channels=stage_channels, in_channels=in_channels)
        self.stages = tuple(pooling.stage for pooling in self.poolings)
        self.summary = ("map", *(pooling.name for pooling in self.poolings))
        lengths = [pooling.values for pooling in self.poolings]
        self.scales = nn.ModuleList([FeatureScale(channels) for channels in (in_channels, *lengths)])
        self.feature_dropout = nn.Dropout2d(feature_dropout)
        self.embed = nn.Linear(in_channels, width)
        self.embed_stages = nn.ModuleList([nn.Linear(values, width) for values in lengths])
        self.rectify = nn.ReLU(inplace=True) if rectify else nn.Identity()
        self.queries, self.decoder, self.readout = asks, decodes, reads
        self.register_buffer("words", words)
        self.register_buffer("word_slots", word_slots, persistent=False)
        # If queries look at each other, a label's score depends on what else is asked for.
        self.takes_words = words is not None and decodes.scores_apart and reads.reads_any_words
        self.shared_experts = reads.shared_count
        self._embedding: Memo[tuple[Tensor, Tensor]] = Memo()

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Give the feature map (B, C, H, W) as it is, since attention needs every position, and pool the stages."""
        pairs = zip(self.poolings, stages, strict=True)
        return (features, *(pooling.pool(stage) for pooling, stage in pairs))

    def classify(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Map features (B, C, H, W) and pooled stages (B, P_s) to logits (B, N).

        Args:
            features: (B, C, H, W).
            stages: Pooled stages (B, P_s).
            words: (K', g, d_w) other words than those of the classes, for a head that `takes_words`; then logits are
                (B, K' · g), in the order of the words.
        """
        if words is None:
            logits: Tensor = self.readout(self._decode(features, *stages), self.words)
            return logits
        if not self.takes_words:
            self.refuse_words(words)
        return self.readout.read_all(self._decode(features, *stages, words=words), words)

    def class_words(self) -> ClassWords | None:
        """Give the words of the classes and how queries share them; None for a head without words."""
        if self.words is None or self.word_slots is None:
            return None
        return ClassWords(
            self.words,
            self.word_slots,
            fixed_queries=None if self.queries.any_number else self.readout.queries,
            grouping=cast(Literal["random", "consecutive"], self.readout.grouping),
            grouping_seed=self.readout.grouping_seed,
        )

    def attention(self, features: Tensor, *stages: Tensor) -> list[Tensor]:
        """Show where each query looks.

        Args:
            features: (B, C, H, W).
            stages: Pooled stages (B, P_s), the rest of `summarise`.

        Returns:
            Per layer that reads the image (B, heads, K, H * W + S): positions in row order, then the S stages.
        """
        trace = Trace()
        self._decode(features, *stages, trace=trace)
        return trace.attention

    def evidence(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Show how much of each logit came from each position, as `trace` defines it: (B, N, H, W).

        Args:
            features: (B, C, H, W).
            stages: The maps (B, C_s, H_s, W_s) of `stages`.
            words: (K', g, d_w) other words than those of the classes; then (B, K' · g, H, W).
        """
        trace = Trace()
        tokens = self._decode(*self.summarise(features, *stages), trace=trace, words=words)
        if words is None:
            directions, owners = self.readout.directions(tokens, self.words), self.readout.owners(tokens)
        else:
            directions = self.readout.all_directions(words)
            owners = torch.arange(directions.shape[1], device=tokens.device) // words.shape[1]
        height, width = features.shape[2:]
        return trace.evidence(directions, owners, height * width).view(features.shape[0], -1, height, width)

    def gate_weights(self, features: Tensor, *stages: Tensor) -> list[Tensor]:
        """Show which experts each class uses, if the readout is hybrid sharing.

        Args:
            features: (B, C, H, W).
            stages: Pooled stages (B, P_s), the rest of `summarise`.

        Returns:
            Per layer (B, N, n_t + n_s), a class's own experts first.
        """
        return self.readout.gate_weights(self._decode(features, *stages))

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Refuse options that this head and its parts do not have, and say where they belong."""
        own = cls.option_names()
        for option in options:
            if option not in own:
                _refuse_misplaced(option, "this head")
        check_names("head option", options, own)
        for table in PART_TABLES:
            given = part_options(table.kind, options.get(table.kind))
            for option in given:
                if option != "name" and not table.owners(option):
                    _refuse_misplaced(option, f"the {table.kind}")
            table.choose(given, cls.default_part(table.kind))

    @classmethod
    def needs_words(cls, options: Mapping[str, Any]) -> bool:
        """Say whether queries or readout, with these options, are made from word vectors."""
        kinds = ("queries", "readout")
        return "words" in [(cls.default_part(kind) | part_options(kind, options.get(kind)))["name"] for kind in kinds]

    @classmethod
    def default_part(cls, kind: str) -> dict[str, Any]:
        """Give what a part is unless a recipe says otherwise, as a dict with its `name`."""
        return part_options(kind, inspect.signature(QueryHead).parameters[kind].default)

    def _decode(
        self, features: Tensor, *stages: Tensor, trace: Trace | None = None, words: Tensor | None = None
    ) -> Tensor:
        """Give tokens (B, K, D) of the classes, or of other words."""
        memory, grid = self._memory(features, *stages)
        tokens: Tensor = self.decoder(self.queries, memory, grid, trace, self.words if words is None else words)
        return tokens

    def _memory(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """Embed features and pooled stages as tokens (B, H * W + S, D); gives the grid (H, W) along with them."""
        tokens = self._embed(features)
        if stages or self.poolings:
            parts = zip(self.embed_stages, self.scales[1:], stages, strict=True)
            hints = [embed(scale(vector)) for embed, scale, vector in parts]
            tokens = torch.cat([tokens, torch.stack(hints, dim=1)], dim=1)
        return self.rectify(tokens), (features.shape[2], features.shape[3])

    def _embed(self, features: Tensor) -> Tensor:
        """Standardise and embed features (B, C, H, W): gives (B, H * W, D)."""
        if self.training:
            embedded: Tensor = self.embed(_tokens(self.feature_dropout(self.scales[0](features))))
            return embedded
        # Standardising is linear, so without dropout it is folded into the embedding's weights, once per weights.
        sources = [*self.embed.parameters(), *self.scales[0].buffers()]
        weight, bias = self._embedding(sources, self._standardising_embedding)
        return F.linear(_tokens(features.to(weight.dtype)), weight, bias)

    def _standardising_embedding(self) -> tuple[Tensor, Tensor]:
        """W (x − m) / d + b = (W / d) x + (b − (W / d) m)."""
        scale = cast(FeatureScale, self.scales[0])
        weight = self.embed.weight / scale.deviation
        return weight, self.embed.bias - weight @ scale.mean

    def train(self, mode: bool = True) -> "QueryHead":
        """Set the mode, and forget what was computed for the weights."""
        self._embedding.clear()
        return super().train(mode)


def _tokens(features: Tensor) -> Tensor:
    """Turn (B, C, H, W) into (B, H * W, C): of a channels-last map this is a contiguous view."""
    return features.flatten(2).transpose(1, 2)


def _checked_words(word_vectors: WordVectors | None, classes: int, needed: bool) -> Tensor | None:
    """Give word vectors (N, d_w) if a part is made from them; refuse those that no part uses."""
    if needed:
        return word_tensor(word_vectors, classes)
    if word_vectors is not None:
        raise RecipeError("word_vectors are given, but nothing uses them: set queries or readout to words.")
    return None


def _by_query(words: Tensor, readout: Readout) -> tuple[Tensor, Tensor]:
    """Lay the words (N, d_w) of the classes out query by query.

    Returns:
        (K, g, d_w), zeros if a group has fewer than g; and the slots (N,) of the classes among the K · g.
    """
    slots = torch.tensor(readout.slots, device=words.device)
    rows = words.new_zeros(readout.queries * readout.group_size, words.shape[1])
    return rows.index_copy(0, slots, words).view(-1, readout.group_size, words.shape[1]), slots


def _refuse_misplaced(option: str, where: str) -> None:
    """Say to which part an option belongs, if it belongs to one."""
    if owners := [table.kind for table in PART_TABLES if table.owners(option)]:
        raise RecipeError(
            f"{where} has no option '{option}'; it belongs to the {owners[0]}: write {owners[0]}: {{{option}: ...}}"
        )
