"""What every head must do, whatever is in it. A new head joins by adding small options to `SMALL`; variants do, too."""

import copy
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tagloom.errors import RecipeError, TagloomError
from tagloom.losses import asymmetric_loss
from tagloom.models.backbone import create_backbone
from tagloom.models.heads import Head, create_head, head_class, needs_words
from tagloom.models.network import TaggerNetwork, export_network
from tagloom.models.onnx_export import export_onnx
from tagloom.recipe.names import HEADS
from tagloom.tagger.onnx_runner import OnnxNetwork

CHANNELS = 8
STAGE_CHANNELS = [4, 6, 10]
CLASSES = 7
WORD_SIZE = 5
DECODER = {"feed_forward": 24, "attention_heads": 2}
SIZES = {"width": 16, "decoder": DECODER}
THREE = {"readout": {"groups": 3}}
SMALL: dict[str, dict[str, object]] = {
    "gap": {},
    "layover": {},
    "layover, flatten": {"stages": [2], "pooling": "flatten"},
    "layover, per class": {"stages": [1, 3], "mixing": "class", "pooling": "gem", "activation": "none"},
    "layover, side by side": {"stages": [1, 2, 3], "mixing": "concatenate", "pooling": "mean+max"},
    "ml-decoder": SIZES | THREE,
    "ml-decoder, as recipes used to write it": {"width": 16, "feed_forward": 24, "attention_heads": 2, "groups": 3},
    "ml-decoder-small": {**SIZES, "readout": {"groups": 3, "grouping": "consecutive"}},
    "ml-decoder-words": SIZES,
    "ml-decoder-words-grouped": SIZES | THREE,
    "ml-decoder-words-grouped, learnable queries": {**SIZES, **THREE, "queries": "learnable"},
    "ml-decoder-words-grouped, shared readout": {**SIZES, "readout": {"name": "shared", "groups": 3}},
    "ml-decoder-words-grouped, learnable readout": {**SIZES, "readout": {"name": "group", "groups": 3}},
    "transformer-decoder": SIZES,
    "query2label": SIZES,
    "hsq": {**SIZES, "readout": {"shared_experts": 3, "task_experts": 2, "layer_widths": [6, 4]}},
    "tf": {"width": 16, "decoder": {**DECODER, "encoder_layers": 2, "head_width": 6}},
    "tf, post-norm": {
        "width": 16,
        "decoder": {**DECODER, "head_width": None, "norm_first": False, "activation": "relu", "positions": True},
        "readout": "per-class",
    },
    "query": {
        "width": 16,
        "decoder": {"name": "self-attention", **DECODER, "encoder_layers": 1, "positions": True},
        "readout": "shared",
    },
    "ml-decoder, with stages": {**SIZES, **THREE, "stages": [1, 3], "stage_pooling": "max"},
    "tf, with a stage": {"width": 16, "decoder": {**DECODER, "encoder_layers": 2, "positions": False}, "stages": [2]},
}
BATCHES = (1, 2, 7)

every_head = pytest.mark.parametrize("name", SMALL)


def head_name(name: str) -> str:
    """Give the head of a variant: what stands before the comma."""
    return name.partition(",")[0]


def small_head(name: str, classes: int = CLASSES, channels: int = CHANNELS, seed: int = 0, **more: object) -> Head:
    """Make a head with small options and weights that are nowhere zero, in eval mode."""
    options = copy.deepcopy(SMALL[name]) | more
    if classes < 3:  # too few for three groups
        options.pop("groups", None)
        if isinstance(readout := options.get("readout"), dict):
            readout.pop("groups", None)
    if needs_words(head_name(name), options):
        options["word_vectors"] = torch.randn(classes, WORD_SIZE, generator=torch.Generator().manual_seed(classes))
    torch.manual_seed(seed)
    head = create_head(head_name(name), in_channels=channels, classes=classes, stage_channels=STAGE_CHANNELS, **options)
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.3)
    return head.eval()


def maps_for(head: Head, batch: int) -> list[Tensor]:
    """Make what a head reads: the last map, and the larger ones of the stages that it wants."""
    generator = torch.Generator().manual_seed(batch)
    last = torch.randn(batch, CHANNELS, 3, 4, generator=generator)
    stages = [
        torch.randn(batch, channels, 3 << size, 4 << size, generator=generator)
        for channels, size in zip(STAGE_CHANNELS, (2, 1, 0), strict=True)
    ]
    return [last, *(stages[number - 1] for number in head.stages)]


def free_batch(head: Head) -> tuple[object, ...]:
    """Say to an exporter that the batch size of every map may change."""
    free = {0: torch.export.Dim("batch", min=1)}
    return (free, tuple(free for _ in head.stages)) if head.stages else (free,)


def test_every_head_is_in_this_file() -> None:
    assert {head_name(name) for name in SMALL} == set(HEADS)


@pytest.mark.parametrize("name", HEADS)
def test_every_name_leads_to_a_head_that_says_what_it_is_for(name: str) -> None:
    head = head_class(name)
    assert issubclass(head, Head)
    assert "purpose" not in vars(head)
    purpose = head.purpose()
    assert purpose.endswith(".")
    assert 20 < len(purpose) <= 120
    assert purpose != Head.purpose()


def test_heads_with_the_same_names_in_their_summary_compute_the_same_summary():
    """Cached features are found by these names, so a name that means two things would mix up features."""
    seen: dict[tuple[object, ...], tuple[Tensor, ...]] = {}
    for name in SMALL:
        head = small_head(name)
        summary = head.summarise(*maps_for(head, 2))
        before = seen.setdefault((head.summary, head.stages), summary)
        for ours, theirs in zip(summary, before, strict=True):
            torch.testing.assert_close(ours, theirs)


@every_head
def test_what_a_head_does_not_have_it_says(name: str) -> None:
    head = small_head(name)
    summary = head.summarise(*maps_for(head, 2))
    words = head.class_words()
    assert words is not None or not head.takes_words
    if not head.takes_words:
        with pytest.raises(TagloomError, match="its own classes only"):
            head.classify(*summary, words=torch.zeros(2, 1, WORD_SIZE))
    if head.shared_experts is None:
        with pytest.raises(TagloomError, match="no experts"):
            head.gate_weights(*summary)
    if head_name(name) != "layover":
        assert not head.mixes_per_image
        with pytest.raises(TagloomError, match="no mixing amounts"):
            head.mixing_amounts(*summary)
    if "decoder" not in head.option_names():
        with pytest.raises(TagloomError, match="no attention"):
            head.attention(*summary)


@every_head
@pytest.mark.parametrize("classes", [1, 2, 7, 13])
def test_gives_one_finite_logit_per_class(name: str, classes: int) -> None:
    head = small_head(name, classes)
    for batch in BATCHES:
        logits = head(*maps_for(head, batch))
        assert logits.shape == (batch, classes)
        assert logits.isfinite().all()


@every_head
def test_forward_is_summarise_then_classify(name: str) -> None:
    head = small_head(name)
    maps = maps_for(head, 2)
    summary = head.summarise(*maps)
    assert torch.equal(head(*maps), head.classify(*summary))
    assert len(summary) == len(head.summary) == len(head.scales)
    assert [tensor.shape[1] for tensor in summary] == [len(scale.mean) for scale in head.scales]


@every_head
def test_every_parameter_gets_a_gradient(name: str) -> None:
    head = small_head(name).train()
    asymmetric_loss(head(*maps_for(head, 4)), torch.eye(4, CLASSES)).backward()
    for label, parameter in head.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.abs().max() > 1e-8, label


@every_head
def test_unknown_labels_give_no_gradient(name: str) -> None:
    head = small_head(name)
    maps = [tensor.requires_grad_() for tensor in maps_for(head, 2)]
    logits = head(*maps)
    known = torch.ones(2, CLASSES, dtype=torch.bool)
    known[:, 2] = False
    # The same loss without the unknown class at all must give the same gradients everywhere.
    rest = [number for number in range(CLASSES) if number != 2]
    targets = torch.eye(2, CLASSES)
    masked = torch.autograd.grad(asymmetric_loss(logits, targets, known=known), maps, retain_graph=True)
    without = torch.autograd.grad(asymmetric_loss(logits[:, rest], targets[:, rest]), maps)
    torch.testing.assert_close(masked, without)


@every_head
def test_eval_mode_repeats_itself_and_train_mode_drops_at_random(name: str) -> None:
    options = head_class(head_name(name)).option_names()
    if not {"dropout", "decoder"} & set(options):
        pytest.skip("has no dropout")
    head = small_head(name, dropout=0.5)  # of a query head, where recipes used to write it
    maps = maps_for(head, 3)
    assert torch.equal(head.eval()(*maps), head(*maps))
    assert not torch.allclose(head.train()(*maps), head(*maps))


@every_head
def test_an_image_does_not_see_its_batch(name: str) -> None:
    head = small_head(name)
    maps = maps_for(head, 5)
    together = head(*maps)
    for row in range(5):
        alone = head(*(tensor[row : row + 1] for tensor in maps))
        torch.testing.assert_close(alone[0], together[row], rtol=1e-5, atol=1e-5)


@every_head
def test_memory_layout_does_not_matter(name: str) -> None:
    head = small_head(name)
    maps = maps_for(head, 3)
    others = [tensor.to(memory_format=torch.channels_last) for tensor in maps]
    assert not any(other.is_contiguous() for other in others)
    torch.testing.assert_close(head(*others), head(*maps), rtol=1e-5, atol=1e-5)


@every_head
def test_takes_features_that_a_cache_kept_in_half_precision(name: str) -> None:
    head = small_head(name)
    summary = [tensor.half() for tensor in head.summarise(*maps_for(head, 3))]
    exact = head.classify(*(tensor.float() for tensor in summary))
    torch.testing.assert_close(head.classify(*summary), exact, rtol=0.01, atol=0.001)


@every_head
def test_standardises_with_its_scale(name: str) -> None:
    plain, scaled = small_head(name), small_head(name)
    maps = maps_for(plain, 6)
    for kept, scale, moved in zip(plain.summarise(*maps), scaled.scales, plain.scales, strict=True):
        scale.fit([kept])
        assert not torch.allclose(scaled(*maps), plain(*maps))
        moved.mean.copy_(scale.mean)
        moved.deviation.copy_(scale.deviation)
        assert torch.equal(scaled(*maps), plain(*maps))


@every_head
def test_saving_and_loading_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    head = small_head(name, seed=1)
    maps = maps_for(head, 2)
    save_file(head.state_dict(), tmp_path / "head.safetensors")
    other = small_head(name, seed=2)
    with torch.no_grad():
        assert not torch.equal(other(*maps), head(*maps))
        other.load_state_dict(load_file(tmp_path / "head.safetensors"))
        assert torch.equal(other(*maps), head(*maps))


@every_head
def test_copies_are_independent(name: str) -> None:
    head = small_head(name)
    maps = maps_for(head, 2)
    with torch.no_grad():
        before = head(*maps)
        other = copy.deepcopy(head)
        for parameter in other.parameters():
            parameter.mul_(1.5)
        assert torch.equal(head(*maps), before)
        assert not torch.allclose(other(*maps), before)


@every_head
def test_exports_with_a_free_batch(name: str) -> None:
    head = small_head(name)
    with torch.no_grad():
        program = torch.export.export(head, tuple(maps_for(head, 2)), dynamic_shapes=free_batch(head)).module()
        for batch in BATCHES:
            maps = maps_for(head, batch)
            torch.testing.assert_close(program(*maps), head(*maps), rtol=1e-5, atol=1e-5)


class TinyBackbone(nn.Module):
    """One convolution per map in the place of a backbone: what is exported here is the head."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, CHANNELS, 8, stride=8)
        self.stages = nn.ModuleList([nn.Conv2d(3, channels, 4, stride=4) for channels in STAGE_CHANNELS])

    def forward_stages(self, pixels: Tensor, stages: tuple[int, ...]) -> tuple[Tensor, list[Tensor]]:
        images = pixels.float() / 255
        return self.convolution(images), [self.stages[number - 1](images) for number in stages]


@every_head
def test_onnx_runtime_computes_the_same(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = TaggerNetwork(TinyBackbone(), small_head(name)).eval()
    words = network.word_input()
    export_network(network, tmp_path / "model.onnx", size=32)
    exported = OnnxNetwork(tmp_path / "model.onnx")
    assert exported.outputs == ("logits", "evidence", "features")
    pictures = np.random.default_rng(1).integers(0, 256, (max(BATCHES), 32, 32, 3), dtype=np.uint8)
    with torch.no_grad():
        ours = network(torch.from_numpy(pictures)).numpy()
        features, stages = network.maps(torch.from_numpy(pictures), network.head.stages)
        evidence = network.head.evidence(features, *stages).numpy()
    assert np.ptp(ours) > 0.01
    asked = [] if words is None else [words.example.numpy()]
    slots = slice(None) if words is None else network.head.class_words().slots
    for batch in BATCHES:
        logits, places, last = exported(pictures[:batch], *asked)
        np.testing.assert_allclose(logits[:, slots], ours[:batch], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(places[:, slots], evidence[:batch], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(last, features[:batch], rtol=1e-4, atol=1e-5)


def test_a_query_head_on_a_timm_backbone_computes_the_same_in_onnx_runtime(tmp_path: Path) -> None:
    backbone = create_backbone("test_efficientnet", "none", size=64)
    network = TaggerNetwork(backbone, small_head("ml-decoder", channels=backbone.out_channels))
    assert export_onnx(network, tmp_path / "model.onnx", size=64) < 1e-4


@pytest.mark.slow
@every_head
def test_compiles_whole_with_a_free_batch(name: str) -> None:
    head = small_head(name)
    torch.compiler.reset()
    compiled = torch.compile(head, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        maps = maps_for(head, 2)
        torch.testing.assert_close(compiled(*maps), head(*maps), rtol=1e-5, atol=1e-5)
        maps = maps_for(head, 7)
        with torch.compiler.set_stance("fail_on_recompile"):
            torch.testing.assert_close(compiled(*maps), head(*maps), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
@pytest.mark.slow
def test_inductor_computes_the_same() -> None:
    head = small_head("ml-decoder")
    maps = maps_for(head, 2)
    torch.compiler.reset()
    compiled = torch.compile(head, fullgraph=True, dynamic=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*maps), head(*maps), rtol=1e-4, atol=1e-5)


@every_head
def test_wrong_options_are_refused_with_the_right_ones(name: str) -> None:
    with pytest.raises(RecipeError, match="dropout"):
        create_head(head_name(name), in_channels=CHANNELS, classes=CLASSES, dropuot=0.1)
