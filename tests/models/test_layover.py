"""Layover against its paper: the equations in loops, the sizes of its networks, and what the cache keeps for it."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import tagloom
from tagloom.data.images import open_image
from tagloom.data.transforms import prepare
from tagloom.errors import RecipeError, TagloomError
from tagloom.losses import soft_margin_loss
from tagloom.models.cost import tagger_cost
from tagloom.models.heads import create_head, head_class
from tagloom.models.heads.pooling import POOLING_NAMES, POOLINGS, choose_poolings, flatten_pool, mean_pool
from tagloom.models.network import TaggerNetwork, build_network, load_network, save_weights
from tagloom.models.onnx_export import export_onnx
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec
from tagloom.training.features.extract import extract_features
from tagloom.training.features.fill import extractor_key
from tagloom.training.features.views import PLAIN
from tagloom.training.signals import StopRequest

CHANNELS, CLASSES, BATCH = 6, 5, 3
STAGE_CHANNELS = [2, 3, 4]
GRIDS = [(8, 8), (4, 4), (2, 3)]
PREPROCESS = Preprocess(size=32)


def maps(*stages: int, batch: int = BATCH) -> list[Tensor]:
    """Make the last map and those of some stages, in float64."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(CHANNELS, 2, 2), *((channels, *grid) for channels, grid in zip(STAGE_CHANNELS, GRIDS, strict=True))]
    every = [torch.randn(batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [every[0], *(every[number] for number in stages)]


def make(name: str = "layover", **options: object) -> nn.Module:
    """Make a head in float64 with weights that are nowhere zero and scales that were fitted, in eval mode."""
    torch.manual_seed(0)
    head = create_head(name, in_channels=CHANNELS, classes=CLASSES, stage_channels=STAGE_CHANNELS, **options).double()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.5)
    for scale, kept in zip(head.scales, head.summarise(*maps(*head.stages, batch=9)), strict=True):
        scale.fit([kept * 2 + 1])
    return head.eval()


def pool_by_loops(image: Tensor, pooling: str) -> Tensor:
    """Pool one map (C, H, W), one number at a time."""
    channels, height, width = image.shape
    if pooling == "flatten":
        line = [image[c, y, x] for y in range(height) for x in range(width) for c in range(channels)]
        edges = [(i * len(line) // CHANNELS, -(-(i + 1) * len(line) // CHANNELS)) for i in range(CHANNELS)]
        return torch.stack([sum(line[low:high]) / (high - low) for low, high in edges])
    places = [[image[c, y, x] for y in range(height) for x in range(width)] for c in range(channels)]
    means = [sum(values) / len(values) for values in places]
    highest = [max(values) for values in places]
    cubes = [sum(torch.clamp(value, min=1e-6) ** 3 for value in values) / len(values) for values in places]
    by_name = {"mean": means, "max": highest, "mean+max": means + highest, "gem": [cube ** (1 / 3) for cube in cubes]}
    return torch.stack(by_name[pooling])


def layover_by_loops(head: nn.Module, pooling: str, activation: str, images: list[Tensor]) -> Tensor:
    """Eq. 2, 3, 5 and 6 for one image, its last map first; several stages share what a softmax leaves them."""
    standard = [
        (pool_by_loops(image, kind) - scale.mean) / scale.deviation
        for image, kind, scale in zip(images, ["mean"] + [pooling] * len(head.stages), head.scales, strict=True)
    ]
    z, pooled = standard[0], standard[1:]
    weight, bias = head.mixer.linear.weight, head.mixer.linear.bias
    if head.mixing == "concatenate":
        parts = weight.split([len(vector) for vector in standard], dim=1)
        return bias + sum(part @ vector for part, vector in zip(parts, standard, strict=True))
    hints = []
    for hint, vector in zip(head.hints, pooled, strict=True):
        if pooling == "flatten":
            hints.append(vector)
        elif activation == "sigmoid":
            hints.append(1 / (1 + torch.exp(-(hint[0].weight @ vector + hint[0].bias))))
        else:
            hints.append(hint.weight @ vector + hint.bias)

    def mixed(amounts: Tensor) -> Tensor:
        total = 1 + sum(torch.exp(amount) for amount in amounts)
        alphas = [torch.exp(amount) / total for amount in amounts]
        return (1 - sum(alphas)) * z + sum(alpha * hint for alpha, hint in zip(alphas, hints, strict=True))

    if head.mixing == "image":
        return weight @ mixed(head.mixer.amounts.weight @ z + head.mixer.amounts.bias) + bias
    rows = [head.mixer.start + amounts for amounts in head.mixer.amounts]
    return torch.stack([weight[i] @ mixed(row) + bias[i] for i, row in enumerate(rows)])


CASES = [
    *itertools.product([[1], [1, 2, 3]], ["mean"], ["image", "class", "concatenate"], ["sigmoid", "none"]),
    *itertools.product([[2], [1, 3]], ["max", "gem", "mean+max", "flatten"], ["image", "concatenate"], ["sigmoid"]),
    ([3], "flatten", "class", "none"),
]


@pytest.mark.parametrize(("stages", "pooling", "mixing", "activation"), CASES)
def test_equals_the_papers_equations_forward_and_gradient(
    stages: list[int], pooling: str, mixing: str, activation: str
) -> None:
    head = make(stages=stages, pooling=pooling, mixing=mixing, activation=activation)
    inputs = [tensor.requires_grad_() for tensor in maps(*stages)]
    sources = [*inputs, *head.parameters()]
    weights = torch.randn(BATCH, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ours = head(*inputs)
    plain = torch.stack(
        [layover_by_loops(head, pooling, activation, list(images)) for images in zip(*inputs, strict=True)]
    )
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weights).sum(), sources),
        torch.autograd.grad((plain * weights).sum(), sources),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("pooling", POOLING_NAMES)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_poolings_are_what_their_names_say_at_any_size(
    pooling: str, channels: int, height: int, width: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(2, channels, height, width, generator=generator, dtype=torch.float64)
    (kept,) = choose_poolings([1], pooling, stage_channels=[channels], in_channels=CHANNELS)
    pooled = kept.pool(images)
    assert pooled.shape == (2, kept.values)
    torch.testing.assert_close(pooled, torch.stack([pool_by_loops(image, pooling) for image in images]))


def test_the_generalised_mean_stands_between_mean_and_maximum_and_survives_half_precision() -> None:
    images = torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    low, middle, high = (POOLINGS[name](images) for name in ("mean", "gem", "max"))
    assert (low < middle).all()
    assert (middle < high).all()
    wide = images.half() * 60  # whose cubes half precision cannot hold
    torch.testing.assert_close(POOLINGS["gem"](wide), middle * 60, rtol=2e-3, atol=0)


def test_flattening_runs_over_whole_tokens_in_row_order() -> None:
    tokens = torch.arange(6.0)  # the value of each of 2 x 3 tokens, in all of its 4 channels
    images = tokens.view(1, 1, 2, 3).expand(-1, 4, -1, -1)
    torch.testing.assert_close(flatten_pool(images, 6)[0], tokens)
    torch.testing.assert_close(flatten_pool(images, 3)[0], torch.tensor([0.5, 2.5, 4.5]))


def test_with_the_papers_kernel_the_flattened_swin_stage_is_almost_constant(scenes: Path) -> None:
    # Stages 2 to 4 are cut short, since only the first is looked at; the widths and the kernel are Swin-B's.
    torch.manual_seed(0)
    swin = timm.create_model("swin_base_patch4_window12_384", num_classes=0, depths=(2, 1, 1, 1)).eval()
    paths = sorted((scenes / "images").glob("*.jpg"))[:2]
    pixels = torch.from_numpy(np.stack([prepare(open_image(path), Preprocess(size=384)) for path in paths]))
    images = pixels.permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        (stage,) = swin.forward_intermediates(images, indices=[0], intermediates_only=True, stop_early=True)
    assert stage.shape == (2, 128, 96, 96)
    pooled = flatten_pool(stage, swin.num_features)
    assert pooled.std() < stage.std() / 100
    assert mean_pool(stage).std() > stage.std() / 10, "the channels' means, which it averages away, do differ"


def test_the_amount_of_one_stage_is_the_papers_sigmoid() -> None:
    head = make(stages=[2])
    summary = head.summarise(*maps(2))
    expected = torch.sigmoid(head.mixer.amounts(head.scales[0](summary[0])))
    torch.testing.assert_close(head.mixing_amounts(*summary), expected)
    with torch.no_grad():
        head.mixer.amounts.weight.zero_()
        head.mixer.amounts.bias.fill_(-23.0)
    tiny = head.mixing_amounts(*summary)
    torch.testing.assert_close(tiny, torch.full_like(tiny, 1 / (1 + math.exp(23.0))), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("mixing", "rows"), [("image", BATCH), ("class", CLASSES)])
def test_amounts_have_a_row_per_image_or_class_and_leave_a_share_to_the_pooled_feature(mixing: str, rows: int) -> None:
    head = make(stages=[1, 2, 3], mixing=mixing)
    amounts = head.mixing_amounts(*head.summarise(*maps(1, 2, 3)))
    assert amounts.shape == (rows, 3)
    assert (amounts > 0).all()
    assert (amounts.sum(dim=1) < 1).all()
    assert len(amounts.unique(dim=0)) == rows, "each has its own"


def test_concatenation_has_no_amounts_and_says_so() -> None:
    head = make(mixing="concatenate")
    with pytest.raises(TagloomError, match="mixing 'image' or 'class'"):
        head.mixing_amounts(*head.summarise(*maps(1)))


@pytest.mark.parametrize("mixing", ["image", "class"])
@pytest.mark.parametrize("stages", [[1], [1, 2, 3]])
def test_amounts_start_together_at_the_share_asked_for(mixing: str, stages: list[int]) -> None:
    head = create_head(
        "layover", in_channels=CHANNELS, classes=CLASSES, stage_channels=STAGE_CHANNELS,
        stages=stages, mixing=mixing, mixing_start=0.3,
    ).double()  # fmt: skip
    amounts = head.mixing_amounts(*head.summarise(*maps(*stages)))
    torch.testing.assert_close(amounts, torch.full_like(amounts, 0.3 / len(stages)))


@pytest.mark.parametrize("mixing", ["image", "class"])
def test_from_a_tiny_start_it_learns_as_the_linear_probe_does(mixing: str) -> None:
    inputs, targets = maps(1, batch=8), torch.eye(8, CLASSES)
    facts = {"in_channels": CHANNELS, "classes": CLASSES, "stage_channels": STAGE_CHANNELS}
    layover = create_head("layover", **facts, mixing=mixing, mixing_start=1e-9).double()
    probe = create_head("gap", **facts).double()
    for head, wanted in ((layover, inputs), (probe, inputs[:1])):
        optimiser = torch.optim.SGD(head.parameters(), lr=2.0)
        for _ in range(5):
            optimiser.zero_grad()
            soft_margin_loss(head(*wanted), targets).backward()
            optimiser.step()
    assert probe.linear.weight.abs().max() > 0.1
    torch.testing.assert_close(layover(*inputs), probe(*inputs[:1]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("pooling", "mixing"), [*itertools.product(POOLING_NAMES, ["image", "class", "concatenate"])])
def test_every_parameter_of_every_kind_learns_from_its_own_start(pooling: str, mixing: str) -> None:
    torch.manual_seed(0)
    head = create_head(
        "layover", in_channels=CHANNELS, classes=CLASSES, stage_channels=STAGE_CHANNELS,
        stages=[1, 3], pooling=pooling, mixing=mixing,
    ).double()  # fmt: skip
    optimiser = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(2):  # the classifier starts at zero, so what is below it learns from the second step on
        optimiser.zero_grad()
        soft_margin_loss(head(*maps(1, 3)), torch.eye(BATCH, CLASSES)).backward()
        optimiser.step()
    for label, parameter in head.named_parameters():
        assert parameter.grad.abs().max() > 1e-8, label


MODELS = {
    "test_efficientnet": ({}, 64, [1, 3]),
    "test_vit": ({}, 160, [2, 6]),
    "swin_tiny_patch4_window7_224": (
        {"img_size": 64, "window_size": 2, "embed_dim": 8, "depths": (1, 1), "num_heads": (2, 2)}, 64, [1, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("head", "options"),
    [
        *(("layover", {"pooling": pooling}) for pooling in POOLING_NAMES),
        ("ml-decoder", {"width": 16, "decoder": {"feed_forward": 8, "attention_heads": 2}}),
    ],
)
def test_stages_of_convolutions_and_transformers_fit(model: str, head: str, options: dict[str, object]) -> None:
    settings, size, stages = MODELS[model]
    net = timm.create_model(model, num_classes=10, **settings)
    tagger = tagloom.attach_head(net, head, classes=CLASSES, stages=stages, **options)
    logits = tagger(torch.randn(2, 3, size, size))
    assert logits.shape == (2, CLASSES)
    if head == "ml-decoder":
        logits.square().sum().backward()
        assert next(net.parameters()).grad.abs().max() > 0


@pytest.mark.parametrize(
    ("backbone", "size", "options", "paper"),
    [
        # A BiT network's first stage is its stem, so the paper's first block is stage 2.
        ("resnetv2_50x3_bit", 448, {"stages": [2]}, 768 * 6144 + 6144 + 6144 + 1 + 6144 * 80 + 80),
        ("resnetv2_101x3_bit", 448, {"stages": [2]}, 5_222_481),
        ("swin_base_patch4_window12_384", 384, {"pooling": "flatten"}, 1024 + 1 + 1024 * 80 + 80),
        ("swin_large_patch4_window12_384", 384, {"pooling": "flatten"}, 1536 + 1 + 1536 * 80 + 80),
    ],
)
def test_as_many_parameters_are_trained_as_in_the_papers_table(
    backbone: str, size: int, options: dict[str, object], paper: int
) -> None:
    _, head = tagger_cost(backbone, "layover", classes=80, size=size, **options)
    assert head.parameters == paper
    assert round(head.parameters / 1e6) == (5 if "bit" in backbone else 0)  # as the table prints them: 5 and << 1


def build(head: str = "layover", backbone: str = "test_efficientnet", **options: object) -> TaggerNetwork:
    torch.manual_seed(0)
    network = build_network(
        backbone=backbone, weights="none", head=head, head_options=options, classes=CLASSES, size=32, frozen=True
    )
    for parameter in network.head.parameters():
        nn.init.normal_(parameter, std=0.3)
    return network.eval()


@pytest.mark.parametrize(
    ("backbone", "head", "options"),
    [
        ("test_efficientnet", "layover", {"stages": [1, 3], "pooling": "gem"}),
        ("test_vit", "layover", {"stages": [2], "pooling": "flatten", "mixing": "class"}),
        ("test_resnet", "ml-decoder", {"stages": [4], "width": 16, "feed_forward": 8, "attention_heads": 2}),
    ],
)
def test_the_onnx_copy_of_a_tagger_with_stages_computes_the_same(
    backbone: str, head: str, options: dict[str, object], tmp_path: Path
) -> None:
    assert export_onnx(build(head, backbone, **options), tmp_path / "model.onnx", size=32) < 1e-4
    assert (tmp_path / "model.onnx").is_file()


def test_a_saved_tagger_is_rebuilt_from_its_options_alone(tmp_path: Path) -> None:
    options = {"stages": [3, 1], "pooling": "mean+max", "mixing": "class"}
    network = build(**options)
    save_weights(network, tmp_path)
    labels = tuple("abcde")
    spec = TaggerSpec(labels, PREPROCESS, backbone="test_efficientnet", head="layover", head_options=options)
    pictures = torch.randint(0, 256, (2, 32, 32, 3), dtype=torch.uint8)
    with torch.no_grad():
        assert torch.equal(load_network(tmp_path, spec)(pictures), network(pictures))


def test_the_cache_keeps_one_vector_per_stage_and_no_map(scenes: Path, tmp_path: Path) -> None:
    network = build(stages=[1, 3])
    paths = sorted((scenes / "images").glob("train_*.jpg"))[:5]
    found = extract_features(
        network, paths, PREPROCESS, cache_folder=tmp_path, device=torch.device("cpu"), stop=StopRequest()
    )
    kept = found.features.gather(np.arange(5))
    assert [(array.shape, array.dtype) for array in kept] == [((5, width), np.float32) for width in (256, 16, 32)]
    pixels = torch.from_numpy(np.stack([prepare(open_image(path), PREPROCESS) for path in paths]))
    with torch.no_grad():
        for array, ours in zip(kept, network.summarise(pixels), strict=True):
            np.testing.assert_allclose(array, ours.numpy(), rtol=1e-3, atol=1e-3)


def test_a_cache_is_shared_exactly_by_heads_that_keep_the_same() -> None:
    def key(**options: object) -> str:
        return extractor_key(build(**options), PREPROCESS, PLAIN)

    kinds = [{"stages": stages, "pooling": pooling} for stages in ([1], [2], [1, 2]) for pooling in POOLING_NAMES]
    keys = {key(**kind) for kind in kinds} | {key(head="gap")}
    assert len(keys) == len(kinds) + 1
    assert key(stages=[2, 1], pooling="max", mixing="class") == key(stages=[1, 2], pooling="max", activation="none")


def test_what_the_backbone_decides_is_no_option() -> None:
    for name, own in (("layover", "dropout"), ("query", "decoder"), ("ml-decoder", "decoder")):
        options = set(head_class(name).option_names())
        assert {"stages", own} <= options
        assert not {"in_channels", "classes", "stage_channels", "word_vectors", "options"} & options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stages": [4]}, "has the stages 1 to 3"),
        ({"stages": [0, 1]}, "has the stages 1 to 3"),
        ({"stages": [1, 1]}, "different stages"),
        ({"stages": 1}, "a list of different stages"),
        ({"stages": [True]}, "a list of different stages"),
        ({"stages": ["1"]}, "a list of different stages"),
        ({"stages": []}, "use the head 'gap'"),
        ({"pooling": "men"}, "did you mean 'mean'"),
        ({"mixing": "images"}, "did you mean 'image'"),
        ({"activation": "sigmod"}, "did you mean 'sigmoid'"),
        ({"mixing_start": 0}, "no amount can grow"),
        ({"mixing_start": 1.0}, "mixing_start is 1.0"),
        ({"mixing_start": "0.1"}, "mixing_start is '0.1'"),
        ({"dropout": 1}, "dropout is 1"),
        ({"dropout": "much"}, "dropout is 'much'"),
    ],
)
def test_options_that_cannot_work_say_why(options: dict[str, object], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        make(**options)


def test_a_backbone_without_stages_is_refused_with_what_to_do() -> None:
    with pytest.raises(RecipeError, match="give stage_channels"):
        create_head("layover", in_channels=4, classes=2)
    with pytest.raises(RecipeError, match="has the stages 1 to 5"):
        build(stages=[6])


DECODER = {"feed_forward": 10, "attention_heads": 2}
QUERY = {"width": 8, "decoder": DECODER, "stages": [1, 3]}


def memory_by_hand(head: nn.Module, features: Tensor, *pooled: Tensor) -> Tensor:
    """Embed one token after the other: the positions of the map, then the stages."""
    scale, positions = head.scales[0], itertools.product(range(features.shape[2]), range(features.shape[3]))
    tokens = [head.embed((features[:, :, y, x] - scale.mean) / scale.deviation) for y, x in positions]
    for embed, scale, vector in zip(head.embed_stages, list(head.scales)[1:], pooled, strict=True):
        tokens.append(embed((vector - scale.mean) / scale.deviation))
    return head.rectify(torch.stack(tokens, dim=1))


@pytest.mark.parametrize("name", ["ml-decoder", "transformer-decoder", "query2label", "tf"])
def test_a_query_head_reads_every_stage_as_one_more_token(name: str) -> None:
    head = make(name, **QUERY | {"decoder": {**DECODER, "positions": False}})
    inputs = [tensor.requires_grad_() for tensor in maps(1, 3)]
    assert head.summary == ("map", "stage1:mean", "stage3:mean")
    summary = head.summarise(*inputs)
    memory = memory_by_hand(head, *summary)
    expected = head.readout(head.decoder(head.queries, memory, (2, 2)))
    ours = head(*inputs)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    sources = [*inputs, *head.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad(ours.square().sum(), sources),
        torch.autograd.grad(expected.square().sum(), sources),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-9)
        assert mine.abs().max() > 0
    assert all(weights.shape[-1] == 2 * 2 + 2 for weights in head.attention(*summary))


def test_the_scales_of_stages_are_seen_in_eval_mode_too() -> None:
    head = make("ml-decoder", stage_pooling="gem", **QUERY | {"decoder": {**DECODER, "dropout": 0.0}})
    with torch.no_grad():
        for scale in head.scales:
            before = head.eval()(*maps(1, 3))
            scale.mean.add_(1.0)
            moved = head(*maps(1, 3))
            assert not torch.allclose(moved, before, atol=1e-4)
            torch.testing.assert_close(moved, head.train()(*maps(1, 3)))


def test_a_query_head_without_stages_is_what_it_was() -> None:
    def plain(**facts: object) -> nn.Module:
        torch.manual_seed(0)
        return create_head(
            "ml-decoder", in_channels=CHANNELS, classes=CLASSES, **QUERY | {"stages": []}, **facts
        ).eval()

    head, features = plain(stage_channels=STAGE_CHANNELS), maps()[0].float()
    assert (head.stages, head.summary, len(head.scales)) == ((), ("map",), 1)
    assert not any("stage" in name for name in head.state_dict())
    tokens = F.linear(features.flatten(2).transpose(1, 2), *head._standardising_embedding()).relu()
    expected = head.readout(head.decoder(head.queries, tokens, (2, 2)))
    assert torch.equal(head(features), expected)
    assert torch.equal(plain()(features), expected)
    assert head.attention(features)[0].shape[-1] == 2 * 2


@pytest.mark.parametrize("name", ["query2label", "tf"])
def test_the_token_of_a_stage_has_no_position(name: str) -> None:
    head = make(name, **{**QUERY, "decoder": {**QUERY.get("decoder", {}), "positions": True}})
    features, *pooled = head.summarise(*maps(1, 3))
    swapped = torch.stack([head._memory(features, *pooled)[0][:, token] for token in (0, 1, 2, 3, 5, 4)], dim=1)
    there = head.readout(head.decoder(head.queries, swapped, (2, 2)))
    torch.testing.assert_close(there, head.classify(features, *pooled))
    assert not torch.allclose(head.classify(features.flip(3), *pooled), head.classify(features, *pooled))
