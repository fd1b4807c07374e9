"""Query heads against plain references: the papers' equations in loops, with the same weights, forward and gradient."""

import math

import pytest
import torch
from torch import Tensor, nn

from tagloom.errors import RecipeError
from tagloom.labels.groups import group_classes
from tagloom.losses import asymmetric_loss
from tagloom.models.heads import create_head
from tagloom.models.heads.queries import JoinedWordQueries, WordQueries
from tagloom.models.heads.readout import GroupReadout
from tagloom.models.heads.trace import Trace
from tagloom.models.heads.transformer import sine_positions
from tagloom.recipe.head_parts import part_options

CHANNELS, CLASSES, HEIGHT, WIDTH = 6, 7, 3, 4
WIDE = 8
DECODER = {"feed_forward": 10, "attention_heads": 2}
UNEVEN = [[3], [6, 1], [0, 2, 4, 5]]
WORDS = torch.randn(CLASSES, 5, generator=torch.Generator().manual_seed(3))
WORDS_IN = {"word_vectors": WORDS}
POST_NORM = {"norm_first": False, "activation": "relu", "head_width": None, "attention_bias": True, "positions": True}


def make(name: str, **options: object) -> nn.Module:
    """Make a small head in float64 with weights that are nowhere zero or one, in eval mode."""
    torch.manual_seed(0)
    options["decoder"] = DECODER | part_options("decoder", options.get("decoder"))
    head = create_head(name, in_channels=CHANNELS, classes=CLASSES, **{"width": WIDE} | options).double()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.5)
    return head.eval()


def images(batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, CHANNELS, HEIGHT, WIDTH, generator=generator, dtype=torch.float64)


def linear(vector: Tensor, layer: nn.Linear) -> Tensor:
    return layer.weight @ vector + layer.bias


def norm(vector: Tensor, layer: nn.LayerNorm) -> Tensor:
    spread = ((vector - vector.mean()) ** 2).mean()
    return (vector - vector.mean()) / torch.sqrt(spread + layer.eps) * layer.weight + layer.bias


def attend(queries: list[Tensor], keys: list[Tensor], values: list[Tensor], attention: nn.Module) -> list[Tensor]:
    """Multi-head attention, Eq. 1 of ML-Decoder, one head, one query and one key at a time."""
    width = len(queries[0])
    d = width // attention.heads
    weight, bias = attention.key_value.weight, attention.key_value.bias
    q = [linear(query, attention.query) for query in queries]
    k = [weight[:width] @ key + bias[:width] for key in keys]
    v = [weight[width:] @ value + bias[width:] for value in values]
    outputs = []
    for query in q:
        heads = []
        for number in range(attention.heads):
            part = slice(number * d, (number + 1) * d)
            scores = torch.stack([query[part] @ key[part] / math.sqrt(d) for key in k])
            shares = torch.exp(scores) / torch.exp(scores).sum()
            heads.append(sum(share * value[part] for share, value in zip(shares, v, strict=True)))
        outputs.append(linear(torch.cat(heads), attention.out))
    return outputs


def self_attend(tokens: list[Tensor], positions: list[Tensor], block: nn.Module) -> list[Tensor]:
    placed = [token + position for token, position in zip(tokens, positions, strict=True)]
    mixed = attend(placed, placed, tokens, block.attention)
    return [norm(token + change, block.norm) for token, change in zip(tokens, mixed, strict=True)]


def feed_forward(tokens: list[Tensor], block: nn.Module) -> list[Tensor]:
    return [
        norm(token + linear(torch.clamp(linear(token, block.expand), min=0), block.contract), block.norm)
        for token in tokens
    ]


def cross_attend(
    target: list[Tensor], asking: list[Tensor], keys: list[Tensor], values: list[Tensor], layer: nn.Module
) -> list[Tensor]:
    gathered = attend(asking, keys, values, layer.attention)
    target = [norm(token + change, layer.norm) for token, change in zip(target, gathered, strict=True)]
    return feed_forward(target, layer.feed_forward)


def tokens_of(image: Tensor) -> list[Tensor]:
    return [image[:, y, x] for y in range(HEIGHT) for x in range(WIDTH)]


def places() -> list[Tensor]:
    """DETR's normalised sine positions, one number at a time."""
    half = WIDE // 2
    grid = []
    for y in range(1, HEIGHT + 1):
        for x in range(1, WIDTH + 1):
            numbers = []
            for step in (2 * math.pi * y / HEIGHT, 2 * math.pi * x / WIDTH):
                for channel in range(half):
                    angle = step / 10_000 ** (2 * (channel // 2) / half)
                    numbers.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
            grid.append(torch.tensor(numbers, dtype=torch.float64))
    return grid


def per_class(tokens: list[Tensor], readout: nn.Module) -> Tensor:
    return torch.stack([readout.weight[i] @ token + readout.bias[i] for i, token in enumerate(tokens)])


def query_vectors(head: nn.Module) -> list[Tensor]:
    if isinstance(head.queries, WordQueries):
        return [torch.clamp(linear(word, head.queries.linear), min=0) for (word,) in head.words]
    if isinstance(head.queries, JoinedWordQueries):  # Eq. 5, with the words that the head was given
        joined = []
        for part in groups_of(head):
            pieces = torch.cat([head.queries.linear.weight @ WORDS[i].double().to(head.words.dtype) for i in part])
            joined.append(torch.cat([pieces, pieces.new_zeros(WIDE - len(pieces))]))
        return joined
    return list(head.queries.vectors)


def groups_of(head: nn.Module) -> list[list[int]]:
    """The classes of each group, in the order of their places."""
    if hasattr(head.readout, "groups"):
        return [sorted(part) for part in head.readout.groups()]
    size = head.readout.group_size
    by_place = {int(place): i for i, place in enumerate(head.readout.places)}
    rows = [[by_place.get(k * size + j) for j in range(size)] for k in range(head.readout.queries)]
    return [[i for i in row if i is not None] for row in rows]


def ml_decoder_by_loops(head: nn.Module, image: Tensor) -> Tensor:
    memory = [torch.clamp(linear(token, head.embed), min=0) for token in tokens_of(image)]
    target = query_vectors(head)
    for layer in head.decoder.layers:
        target = [norm(query + query, layer.mixing.norm) for query in target]
        target = cross_attend(target, target, memory, memory, layer)
    parts = head.readout.groups()
    logits = [torch.zeros((), dtype=torch.float64)] * CLASSES
    for k, part in enumerate(parts):
        for i in part:
            place = int(head.readout.place_of_class[i])
            row, j = divmod(place, head.readout.weight.shape[2])
            assert int(head.readout.token_of_row[row]) == k
            logits[i] = head.readout.weight[row, :, j] @ target[k] + head.readout.bias[i]
    return torch.stack(logits)


def transformer_decoder_by_loops(head: nn.Module, image: Tensor) -> Tensor:
    memory = [torch.clamp(linear(token, head.embed), min=0) for token in tokens_of(image)]
    target = query_vectors(head)
    for layer in head.decoder.layers:
        target = self_attend(target, [torch.zeros_like(query) for query in target], layer.mixing)
        target = cross_attend(target, target, memory, memory, layer)
    return per_class(target, head.readout)


def query2label_by_loops(head: nn.Module, image: Tensor) -> Tensor:
    memory = [linear(token, head.embed) for token in tokens_of(image)]
    for layer in head.decoder.encoder:
        memory = feed_forward(self_attend(memory, places(), layer.self_attention), layer.feed_forward)
    keys = [token + place for token, place in zip(memory, places(), strict=True)]
    queries = query_vectors(head)
    target = [torch.zeros_like(query) for query in queries]
    for layer in head.decoder.layers:
        if layer.mixing is not None:
            target = self_attend(target, queries, layer.mixing)
        asking = [token + query for token, query in zip(target, queries, strict=True)]
        target = cross_attend(target, asking, keys, memory, layer)
    return per_class([norm(token, head.decoder.norm) for token in target], head.readout)


def tf_by_loops(head: nn.Module, image: Tensor) -> Tensor:
    queries = query_vectors(head)
    tokens = queries + [linear(token, head.embed) for token in tokens_of(image)]
    positions = [torch.zeros_like(query) for query in queries] + places()
    for layer in head.decoder.layers:
        tokens = feed_forward(self_attend(tokens, positions, layer.self_attention), layer.feed_forward)
    return per_class(tokens[:CLASSES], head.readout)


def ml_decoder_tokens(head: nn.Module, image: Tensor) -> list[Tensor]:
    memory = [torch.clamp(linear(token, head.embed), min=0) for token in tokens_of(image)]
    layer = head.decoder.layers[0]
    target = [norm(query + query, layer.mixing.norm) for query in query_vectors(head)]
    return cross_attend(target, target, memory, memory, layer)


def shared_by_loops(head: nn.Module, image: Tensor) -> Tensor:
    """Eq. 3 with W_k = W."""
    tokens = ml_decoder_tokens(head, image)
    logits = [torch.zeros((), dtype=torch.float64)] * CLASSES
    for k, part in enumerate(groups_of(head)):
        for j, i in enumerate(part):
            logits[i] = linear(tokens[k], head.readout.linear)[j]
    return torch.stack(logits)


def word_readout_by_loops(head: nn.Module, image: Tensor) -> Tensor:
    """Eq. 6 in Eq. 3: W_k = W_b · M_k, where M_k stacks the words of group k; and our one bias."""
    tokens = ml_decoder_tokens(head, image)
    logits = [torch.zeros((), dtype=torch.float64)] * CLASSES
    for k, part in enumerate(groups_of(head)):
        stacked = torch.stack([WORDS[i].double() for i in part], dim=1)  # (d_w, g)
        weights = head.readout.weight @ stacked  # (D, g)
        for j, i in enumerate(part):
            logits[i] = weights[:, j] @ tokens[k] + head.readout.bias
    return torch.stack(logits)


CASES = {
    "ml-decoder": ("ml-decoder", {"readout": {"groups": 3}}, ml_decoder_by_loops),
    "ml-decoder, a query per class": ("ml-decoder", {}, ml_decoder_by_loops),
    "ml-decoder, learnable, two layers": (
        "ml-decoder",
        {"queries": "learnable", "decoder": {"layers": 2}, "readout": {"groups": 2, "grouping": "consecutive"}},
        ml_decoder_by_loops,
    ),
    "ml-decoder, uneven groups": ("ml-decoder", {"readout": {"grouping": UNEVEN}}, ml_decoder_by_loops),
    "ml-decoder-small": ("ml-decoder-small", {"readout": {"groups": 4}}, ml_decoder_by_loops),
    "ml-decoder, words": ("ml-decoder", {"queries": "words", "word_vectors": WORDS}, ml_decoder_by_loops),
    "transformer-decoder": ("transformer-decoder", {"decoder": {"layers": 2}}, transformer_decoder_by_loops),
    "query2label": ("query2label", {}, query2label_by_loops),
    "query2label, self-attention": ("query2label", {"decoder": "self-attention"}, query2label_by_loops),
    "tf, post-norm": ("tf", {"decoder": POST_NORM, "readout": "per-class"}, tf_by_loops),
    "tf, post-norm, words": (
        "tf",
        {
            "queries": "words",
            "word_vectors": WORDS.tolist(),
            "decoder": {**POST_NORM, "encoder_layers": 1},
            "readout": "per-class",
        },
        tf_by_loops,
    ),
    "words": ("ml-decoder-words", {"word_vectors": WORDS}, shared_by_loops),
    "words, grouped": ("ml-decoder-words-grouped", WORDS_IN | {"readout": {"groups": 3}}, word_readout_by_loops),
    "words, uneven groups": (
        "ml-decoder-words-grouped",
        WORDS_IN | {"readout": {"grouping": UNEVEN}},
        word_readout_by_loops,
    ),
    "words, a query per class": ("ml-decoder-words-grouped", {"word_vectors": WORDS}, word_readout_by_loops),
    "words for the readout only": (
        "ml-decoder-words-grouped",
        {"word_vectors": WORDS, "readout": {"groups": 3}, "queries": "learnable"},
        word_readout_by_loops,
    ),
    "words for the queries only": (
        "ml-decoder-words-grouped",
        {"word_vectors": WORDS, "readout": {"name": "group", "groups": 3}},
        ml_decoder_by_loops,
    ),
    "words for the queries, a shared readout": (
        "ml-decoder-words-grouped",
        {"word_vectors": WORDS, "readout": {"name": "shared", "groups": 3}},
        shared_by_loops,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_the_papers_equations_forward_and_gradient(case: str) -> None:
    name, options, reference = CASES[case]
    head = make(name, **options)
    inputs = images().requires_grad_()
    sources = [inputs, *head.parameters()]
    weights = torch.randn(2, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ours = head(inputs)
    plain = torch.stack([reference(head, image) for image in inputs])
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weights).sum(), sources),
        torch.autograd.grad((plain * weights).sum(), sources),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_float32_stays_within_a_hundred_thousandth(case: str) -> None:
    name, options, reference = CASES[case]
    head = make(name, **options)
    with torch.no_grad():
        plain = torch.stack([reference(head, image) for image in images()])
        torch.testing.assert_close(head.float()(images().float()).double(), plain, rtol=1e-5, atol=1e-5)


def test_presets_have_their_papers_sizes() -> None:
    def parameters(name: str, channels: int = 2048, classes: int = 80) -> int:
        with torch.device("meta"):
            head = create_head(name, in_channels=channels, classes=classes)
        return sum(parameter.numel() for parameter in head.parameters())

    attention, ffn, embed = 4 * 768 * 768 + 4 * 768, 2 * 768 * 2048 + 768 + 2048, 2048 * 768 + 768
    ml_decoder = embed + attention + ffn + 3 * 2 * 768 + 80 * 768 + 80
    assert parameters("ml-decoder") == ml_decoder
    assert parameters("transformer-decoder") == ml_decoder + attention + 80 * 768  # and learnable queries
    wide_attention, wide_ffn, norm_size = 4 * 2048**2 + 4 * 2048, 8 * 2048**2 + 5 * 2048, 2 * 2048
    layer = wide_attention + wide_ffn + 2 * norm_size
    q2l = 2048 * 2048 + 2048 + 3 * layer + norm_size + 80 * 2048 + 80 * 2048 + 80
    assert parameters("query2label") == q2l
    with torch.device("meta"):
        small = create_head("ml-decoder-small", in_channels=1280, classes=9600)
    assert small.readout.weight.shape == (100, 256, 96)
    assert small.decoder.layers[0].feed_forward.expand.out_features == 512


@pytest.mark.parametrize("name", ["ml-decoder", "transformer-decoder", "query2label", "tf"])
def test_attention_maps_are_those_that_the_logits_come_from(name: str) -> None:
    head, inputs = make(name), images(3)
    maps = head.attention(inputs)
    assert len(maps) == {"query2label": 2, "tf": 3}.get(name, 1)
    for weights in maps:
        assert weights.shape == (3, 2, CLASSES, HEIGHT * WIDTH)
        assert (weights >= 0).all()
        total = weights.sum(dim=-1)
        assert (total < 1).all() if name == "tf" else torch.allclose(total, torch.ones_like(total))
    tokens = head.decoder(head.queries, *head._memory(inputs), Trace())
    torch.testing.assert_close(head.readout(tokens), head(inputs))


def test_attention_finds_the_place_that_a_query_asks_for() -> None:
    head = make("ml-decoder", readout={"groups": CLASSES}, decoder={"attention_heads": 1})
    inputs = torch.zeros(1, CHANNELS, HEIGHT, WIDTH, dtype=torch.float64)
    inputs[0, :, 1, 2] = 5.0
    with torch.no_grad():
        # The first query asks for exactly what place (1, 2) has more of.
        there = torch.relu(head.embed(inputs[0, :, 1, 2])) - torch.relu(head.embed(inputs[0, :, 0, 0]))
        attention = head.decoder.layers[0].attention
        attention.query.weight.zero_()
        attention.query.bias.copy_(attention.key_value.weight[:8] @ there)
    assert int(head.attention(inputs)[0][0, 0, 0].argmax()) == 1 * WIDTH + 2


def test_group_decoding_uses_every_query_and_never_makes_a_token_per_class() -> None:
    readout = GroupReadout(width=4, classes=1000, groups=30)
    tokens = torch.randn(2, 30, 4, requires_grad=True)
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor.numel()) or tensor, lambda x: x):
        logits = readout(tokens)
    (gradient,) = torch.autograd.grad(logits.sum(), tokens)
    assert (gradient.abs().sum(dim=(0, 2)) > 0).all()
    assert max(saved) <= readout.weight.numel() < 2 * 1000 * 4


def test_padding_of_uneven_groups_is_bounded_and_never_trained() -> None:
    uneven = [list(reversed(range(900))), *([number] for number in range(900, 1000))]
    readout = GroupReadout(width=4, classes=1000, grouping=uneven)
    columns = readout.weight.shape[0] * readout.weight.shape[2]
    assert columns < 2 * 1000 + len(uneven)
    used = torch.zeros(columns, dtype=torch.bool)
    used[readout.place_of_class] = True
    assert int(used.sum()) == 1000
    readout(torch.randn(2, len(uneven), 4)).sum().backward()
    by_column = readout.weight.grad.transpose(1, 2).reshape(columns, 4)
    assert (by_column[~used] == 0).all()
    assert (by_column[used] != 0).all()
    assert (readout.weight.transpose(1, 2).reshape(columns, 4)[~used] == 0).all()
    assert readout.groups() == uneven


@pytest.mark.parametrize("name", ["transformer-decoder", "query2label", "ml-decoder"])
def test_a_class_that_is_unknown_everywhere_trains_nothing_of_its_readout(name: str) -> None:
    head = make(name)
    known = torch.ones(2, CLASSES, dtype=torch.bool)
    known[:, 4] = False
    asymmetric_loss(head(images()), torch.eye(2, CLASSES), known=known).backward()
    gradient = head.readout.weight.grad
    per_row = gradient.flatten(1).abs().sum(1)  # with a query per class, row i is class i in either readout
    assert per_row[4] == 0
    assert head.readout.bias.grad[4] == 0
    assert (per_row[known[0]] > 0).all()


def test_the_grouping_is_saved_and_comes_back() -> None:
    first = make("ml-decoder", readout={"groups": 3, "grouping_seed": 1})
    other = make("ml-decoder", readout={"groups": 3, "grouping_seed": 2})
    assert first.readout.groups() != other.readout.groups()
    other.load_state_dict(first.state_dict())
    assert first.readout.groups() == other.readout.groups()
    assert torch.equal(first(images()), other(images()))
    assert first.readout.groups() == group_classes(CLASSES, 3, "random", 1)


def test_fixed_queries_are_saved_but_not_trained() -> None:
    head = make("ml-decoder")
    assert "queries.vectors" in head.state_dict()
    assert "queries.vectors" not in dict(head.named_parameters())
    big = create_head(
        "ml-decoder", in_channels=8, classes=100, width=64, decoder={"attention_heads": 1}
    ).queries.vectors
    assert abs(float(big.mean())) < 0.05
    assert abs(float(big.std()) - 1) < 0.05


def test_positions_reach_keys_but_not_values() -> None:
    head = make("query2label", decoder={"encoder_layers": 0})
    with torch.no_grad():
        for layer in head.decoder.layers:
            layer.attention.query.weight.zero_()
            layer.attention.query.bias.zero_()  # every place now weighs the same, so only values count
    flipped = images().flip(dims=(3,))
    torch.testing.assert_close(head(flipped), head(images()))
    assert not torch.allclose(
        make("query2label", decoder={"encoder_layers": 0})(flipped), make("query2label")(images())
    )


def test_positions_are_detrs_at_any_grid() -> None:
    ours = sine_positions(HEIGHT, WIDTH, WIDE, torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(ours, torch.stack(places()))
    assert sine_positions(2, 3, 8, torch.zeros(1).half()).dtype == torch.float16


def test_without_positions_attention_does_not_care_where() -> None:
    head = make("ml-decoder")
    torch.testing.assert_close(head(images().flip(dims=(2, 3))), head(images()))


def test_feature_dropout_drops_whole_channels_in_training_only() -> None:
    head = make("ml-decoder", feature_dropout=0.5, decoder={"dropout": 0.0})
    assert torch.equal(head(images()), make("ml-decoder", decoder={"dropout": 0.0})(images()))
    seen: list[Tensor] = []
    head.embed.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    head.train()(images() + 10)
    zero = seen[0] == 0  # (B, S, C)
    assert torch.equal(zero.any(dim=1), zero.all(dim=1))
    assert 0 < int(zero.all(dim=1).sum()) < 2 * CHANNELS


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decoder": "cros-attention"}, "did you mean 'cross-attention'"),
        ({"readout": "per-clas"}, "did you mean 'per-class'"),
        ({"queries": "word"}, "did you mean 'words'"),
        ({"queries": "words"}, "needs word_vectors"),
        ({"word_vectors": WORDS}, "set queries or readout to words"),
        ({"queries": "words", "word_vectors": WORDS[:3]}, "3 rows for 7 classes"),
        ({"readout": "words"}, "needs word_vectors"),
        ({"queries": "words", "word_vectors": [[1.0], [1.0, 2.0]]}, "not a table of numbers"),
        ({"queries": "words", "word_vectors": WORDS / 0}, "not finite"),
        (
            {**WORDS_IN, "queries": "words", "readout": {"name": "words", "groups": 1}, "width": 4},
            "7 words cannot share a query",
        ),
        ({"readout": {"groups": 3}}, "readout 'per-class' has no option 'groups'; it belongs to readout group, shared"),
        ({"groups": 3}, "belongs to readout group"),
        ({"readout": {"name": "per-class", "grouping": "consecutive"}}, "belongs to readout group"),
        ({"readout": {"name": "group", "groups": 8}}, "at least one class"),
        ({"readout": {"name": "group", "groups": "3"}}, "head option readout.groups is '3'"),
        ({"readout": {"name": "group", "grops": 3}}, "option of readout 'group' 'grops': did you mean 'groups'"),
        ({"readout": {"layers": 3}}, "the readout has no option 'layers'; it belongs to the decoder"),
        ({"layers": 3}, "this head has no option 'layers'; it belongs to the decoder: write decoder: {layers"),
        ({"readout": 3}, "head option readout is 3; write a name, or a name with options"),
        ({"queries": {"count": 3}}, "queries 'learnable' has no option 'count'; it has no options"),
        ({"width": 9}, "not divisible by attention_heads"),
        ({"width": 6, "decoder": {"positions": True}}, "not divisible by 4"),
        ({"width": "8"}, "head option width is '8'; it must be a whole number"),
        ({"decoder": {"dropout": 1.0}}, "head option decoder.dropout is 1.0"),
        ({"decoder": {"layers": 0}}, "head option decoder.layers is 0"),
        ({"decoder": {"name": "tokens", "encoder_layers": 0}}, "head option decoder.encoder_layers is 0"),
        ({"decoder": {"name": "tokens", "layers": 1}}, "it belongs to decoder cross-attention, self-attention"),
        ({"decoder": {"name": "tokens", "queries_as_position": True}}, "'tokens' has no option 'queries_as_position'"),
    ],
)
def test_parts_that_cannot_fit_say_why(options: dict[str, object], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        make("query", **options)


@pytest.mark.parametrize("queries", ["learnable", "fixed", "words"])
@pytest.mark.parametrize("decoder", ["cross-attention", "self-attention", "tokens"])
@pytest.mark.parametrize("readout", ["per-class", "group", "shared", "words"])
def test_any_parts_combine(queries: str, decoder: str, readout: str) -> None:
    options: dict[str, object] = {"queries": queries, "decoder": decoder, "readout": readout}
    if "words" in (queries, readout):
        options["word_vectors"] = WORDS
    assert make("query", **options)(images()).shape == (2, CLASSES)


def test_a_preset_keeps_its_choices_for_another_part_and_drops_those_that_it_does_not_take() -> None:
    decoder = make("query2label", decoder="self-attention").decoder
    assert (len(decoder.encoder), len(decoder.layers), decoder.positions) == (1, 2, True)
    tokens = make("query2label", decoder="tokens").decoder
    assert (len(tokens.layers), tokens.positions) == (1, True)


def test_options_written_flat_make_the_same_head() -> None:
    flat = {"width": 8, "feed_forward": 10, "attention_heads": 2, "decoder_layers": 2, "dropout": 0.3, "groups": 3}
    nested = {
        "width": 8,
        "decoder": {"feed_forward": 10, "attention_heads": 2, "layers": 2, "dropout": 0.3},
        "readout": {"groups": 3},
    }
    heads = []
    for options in (flat, nested):
        torch.manual_seed(0)
        heads.append(create_head("ml-decoder", in_channels=CHANNELS, classes=CLASSES, **options))
    assert str(heads[0]) == str(heads[1])
    states = [head.state_dict() for head in heads]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_standardising_is_folded_into_the_embedding_and_follows_it():
    torch.manual_seed(0)
    head = create_head("ml-decoder-small", in_channels=6, classes=9, readout={"groups": 3}, decoder={"dropout": 0.0})
    features = torch.randn(4, 6, 5, 5) * 7 + 3
    head.scales[0].fit([features])
    with torch.no_grad():
        plainly = head.train()(features)
        assert torch.allclose(head.eval()(features), plainly, atol=1e-5)
        head.scales[0].mean.add_(1.0)
        moved = head(features)
        assert not torch.allclose(moved, plainly, atol=1e-3), "a change of the statistics is seen"
        assert torch.allclose(moved, head.train()(features), atol=1e-5)
