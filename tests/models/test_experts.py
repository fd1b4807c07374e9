"""Hybrid sharing against the paper's Algorithm 1 written as its loops."""

import pytest
import torch
from torch import Tensor, nn

import tagloom
from tagloom.errors import RecipeError
from tagloom.models.cost import tagger_cost
from tagloom.models.heads.experts import HybridSharingLayer, HybridSharingReadout

SHAPES = [(1, 1, 1), (3, 0, 1), (3, 0, 2), (3, 1, 1), (4, 3, 2), (9, 4, 1), (13, 2, 3)]  # L, n_s, n_t
WIDTH_IN, WIDTH_OUT, BATCH = 6, 5, 3

every_shape = pytest.mark.parametrize(("labels", "shared_experts", "task_experts"), SHAPES)


def make_layer(labels: int, shared_experts: int, task_experts: int, **options: object) -> HybridSharingLayer:
    torch.manual_seed(labels)
    layer = HybridSharingLayer(labels, WIDTH_IN, WIDTH_OUT, shared_experts, task_experts, **options).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.6)
    return layer


def branches(labels: int, same: bool = False) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(7)
    task, shared = torch.randn(2, BATCH, labels, WIDTH_IN, dtype=torch.float64, generator=draw)
    return (task.requires_grad_(), task) if same else (task.requires_grad_(), shared.requires_grad_())


def through(gate: nn.Module | None, label: int | None, tokens: Tensor) -> Tensor:
    """Run one gate, linear or with a hidden layer, by its equations."""
    parts = [gate] if not isinstance(gate, nn.Sequential) else [gate[0], gate[2]]
    for number, part in enumerate(parts):
        weight = part.weight if label is None else part.weight[label]
        bias = part.bias if label is None else part.bias[label]
        tokens = (tokens if number == 0 else tokens.clamp(min=0)) @ weight.T + bias
    return tokens


def algorithm_1(
    layer: HybridSharingLayer, x_t: Tensor, x_s: Tensor, n_s: int, n_t: int, reads: str = "task"
) -> tuple[Tensor, Tensor]:
    """The paper's Algorithm 1, line by line. With `reads` "shared", shared experts read X_s for the labels too."""
    labels = x_t.shape[1]

    def own_expert(i: int, j: int, tokens: Tensor) -> Tensor:
        rows = slice(j * WIDTH_OUT, (j + 1) * WIDTH_OUT)
        return tokens @ layer.task_experts.weight[i, rows].T + layer.task_experts.bias[i, rows]

    def shared_expert(j: int, tokens: Tensor) -> Tensor:
        rows = slice(j * WIDTH_OUT, (j + 1) * WIDTH_OUT)
        return tokens @ layer.shared_experts.weight[rows].T + layer.shared_experts.bias[rows]

    y_s: list[Tensor] = []
    y_t: list[list[Tensor]] = [[] for _ in range(labels)]
    for i in range(labels):
        for j in range(n_t):
            y_s.append(own_expert(i, j, x_s))
            y_t[i].append(own_expert(i, j, x_t[:, i]))
    for j in range(n_s):
        y_s.append(shared_expert(j, x_s))
        for i in range(labels):
            y_t[i].append(shared_expert(j, x_t[:, i] if reads == "task" else x_s[:, i]))
    a_s = torch.softmax(through(layer.shared_gate, None, x_s), -1)
    o_s = sum(a_s[..., k : k + 1] * y.clamp(min=0) for k, y in enumerate(y_s))
    o_t = []
    for i in range(labels):
        a_t = torch.ones(BATCH, 1, dtype=x_t.dtype)  # the softmax of a single number
        if n_t + n_s > 1:
            a_t = torch.softmax(through(layer.task_gates, i, x_t[:, i]), -1)
        o_t.append(sum(a_t[:, k : k + 1] * y.clamp(min=0) for k, y in enumerate(y_t[i])))
    return torch.stack(o_t, dim=1), o_s


@every_shape
@pytest.mark.parametrize("same", [False, True], ids=["later layer", "first layer"])
@pytest.mark.parametrize("gate_hidden", [None, 4], ids=["linear gates", "gates with a hidden layer"])
@pytest.mark.parametrize("reads", ["task", "shared"])
def test_equals_algorithm_1_forward_and_gradient(
    labels: int, shared_experts: int, task_experts: int, same: bool, gate_hidden: int | None, reads: str
) -> None:
    layer = make_layer(labels, shared_experts, task_experts, gate_hidden=gate_hidden, shared_input=reads)
    task, shared = branches(labels, same)
    ours = layer(task, shared)
    theirs = algorithm_1(layer, task, shared, shared_experts, task_experts, reads)
    inputs = [task, *([] if same else [shared]), *layer.parameters()]
    draw = torch.Generator().manual_seed(3)
    weights = [torch.randn(theirs[0].shape, dtype=torch.float64, generator=draw) for _ in range(2)]
    gradients = [
        torch.autograd.grad(sum((out * weight).sum() for out, weight in zip(outs, weights, strict=True)), inputs)
        for outs in (ours, theirs)
    ]
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-9, atol=1e-9)
    for mine, reference in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-9, atol=1e-9)


def test_float32_stays_within_a_hundred_thousandth() -> None:
    layer = make_layer(9, 4, 2)
    task, shared = branches(9)
    with torch.no_grad():
        exact = layer(task, shared)
        rounded = layer.float()(task.float(), shared.float())
    for mine, reference in zip(rounded, exact, strict=True):
        torch.testing.assert_close(mine.double(), reference, rtol=1e-5, atol=1e-5)


def test_as_printed_no_logit_depends_on_the_shared_branch() -> None:
    """Algorithm 1 runs each branch on itself alone: a stack's labels never see what was shared."""
    first, second = make_layer(5, 2, 1), HybridSharingLayer(5, WIDTH_OUT, 4, 2, 1).double()
    task, shared = branches(5)
    task_out, shared_out = second(*first(task, shared))
    assert torch.autograd.grad(task_out.sum(), shared, allow_unused=True)[0] is None
    assert torch.autograd.grad(shared_out.sum(), task, allow_unused=True)[0] is None
    reading = HybridSharingLayer(5, WIDTH_OUT, 4, 2, 1, shared_input="shared").double()
    task_out, _ = reading(*first(task, shared))
    assert torch.autograd.grad(task_out.sum(), shared)[0].abs().max() > 0


def test_a_readout_as_printed_has_no_shared_branch_and_one_that_reads_it_has_all_but_the_last() -> None:
    printed = HybridSharingReadout(8, 4, 3, 1, "task", [6, 5, 4])
    assert [layer.shared_gate for layer in printed.layers] == [None] * 3
    reading = HybridSharingReadout(8, 4, 3, 1, "shared", [6, 5, 4])
    assert [layer.shared_gate is None for layer in reading.layers] == [False, False, True]
    alone = HybridSharingReadout(8, 4, 0, 1, "shared", [6, 5, 4])
    assert [layer.shared_gate for layer in alone.layers] == [None] * 3


def test_without_shared_experts_labels_keep_to_themselves() -> None:
    readout = HybridSharingReadout(8, 4, shared_experts=0, layer_widths=[6, 3])
    tokens = torch.randn(2, 4, 8, requires_grad=True)
    gradient = torch.autograd.grad(readout(tokens)[:, 1].sum(), tokens)[0]
    assert gradient[:, 1].abs().max() > 0
    assert gradient[:, [0, 2, 3]].abs().max() == 0


def saved_bytes(layer: HybridSharingLayer, tokens: Tensor) -> int:
    """Add up what a training step keeps for its backward pass, each storage once, parameters left out."""
    kept: dict[int, int] = {}
    parameters = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = layer(tokens, tokens)
    del outputs
    return sum(kept.values())


def peak_bytes(layer: HybridSharingLayer, tokens: Tensor) -> int:
    """Measure the most memory that a training step holds at once, gradients of parameters included."""
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        outputs = [output for output in layer(tokens, tokens) if output is not None]
        torch.stack([output.sum() for output in outputs]).sum().backward()
        del outputs
    held = most = 0
    events = sorted(
        (event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"),
        key=lambda event: event.start_ns(),
    )
    for event in events:
        held += event.nbytes()
        most = max(most, held)
    assert most > 0
    return most


@pytest.mark.parametrize("shared_experts", [1, 16])
def test_the_shared_branch_does_not_double_the_memory_of_a_step(shared_experts: int) -> None:
    sizes = {"labels": 80, "width_in": 512, "width_out": 64, "shared_experts": shared_experts, "task_experts": 1}
    tokens = torch.randn(16, 80, 512, requires_grad=True)
    both, task = HybridSharingLayer(**sizes), HybridSharingLayer(**sizes, shared_branch=False)
    assert saved_bytes(both, tokens) < 2 * saved_bytes(task, tokens)
    assert peak_bytes(both, tokens) < 2 * peak_bytes(task, tokens)


def test_going_from_1_to_16_shared_experts_adds_the_papers_parameters_and_multiply_adds() -> None:
    """The paper counts the shared branch of the first layer as well, which no logit reads as printed."""
    base, _ = tagger_cost("resnet10t", "query2label", classes=80, size=576, width=512)
    one, many = (
        tagger_cost(
            *("resnet10t", "hsq"),
            classes=80,
            size=576,
            width=512,
            readout={"shared_experts": count, "shared_input": "shared"},
        )[0]
        for count in (1, 16)
    )
    assert many.parameters - one.parameters == pytest.approx(1.21e6, rel=0.002)
    assert round((one.multiply_adds - base.multiply_adds) / 1e9, 1) == 0.2
    assert round((many.multiply_adds - base.multiply_adds) / 1e9, 1) == 0.3
    assert round(base.parameters / 1e6, 1) == pytest.approx(14.8, abs=0.11)  # the paper's Query2Label


def test_as_printed_is_the_default_and_has_no_shared_branch() -> None:
    assert all(layer.shared_gate is None for layer in HybridSharingReadout(8, 4).layers)
    read_on = HybridSharingReadout(8, 4, shared_input="shared")
    assert [layer.shared_gate is None for layer in read_on.layers] == [False, True]


def test_gate_weights_are_those_that_the_task_branch_uses() -> None:
    readout = HybridSharingReadout(8, 4, 3, 2, "task", [6, 5])
    tokens = torch.randn(2, 4, 8)
    first, second = readout.gate_weights(tokens)
    assert first.shape == second.shape == (2, 4, 5)
    torch.testing.assert_close(first.sum(-1), torch.ones(2, 4))
    with torch.no_grad():
        gate = readout.layers[0].task_gates
        gate.bias[1] = torch.tensor([0.0, 0.0, 0.0, 0.0, 1e4])  # label 1 takes the last shared expert and nothing else
        assert readout.gate_weights(tokens)[0][:, 1].argmax(-1).tolist() == [4, 4]
        before = readout(tokens)
        readout.layers[0].task_experts.weight[1] *= 2
        torch.testing.assert_close(readout(tokens)[:, 1] - before[:, 1], torch.zeros(2), atol=1e-6, rtol=0)


def test_an_untrained_layer_passes_on_as_much_signal_with_many_experts_as_with_one() -> None:
    """Independent experts would cancel in the mean that untrained gates take: 16 shared ones leave a 17th."""
    torch.manual_seed(0)
    tokens = torch.randn(64, 10, 128)
    kept = {}
    for shared_experts in (0, 16):
        layer = HybridSharingLayer(10, 128, 64, shared_experts, 1)
        with torch.no_grad():
            kept[shared_experts] = float(layer(tokens, tokens)[0].var(dim=0).mean())
    assert kept[16] > kept[0] / 3


def test_a_decoder_with_fewer_queries_gives_every_label_the_token_of_its_group() -> None:
    grouped = HybridSharingReadout(8, 5, 2, grouping=[[0, 3], [1, 2, 4]])
    single = HybridSharingReadout(8, 5, 2)
    weights = {name: value for name, value in grouped.state_dict().items() if name != "group_of"}
    single.load_state_dict(weights | {"group_of": torch.arange(5)})
    tokens = torch.randn(3, 2, 8)
    assert grouped.queries == 2
    torch.testing.assert_close(grouped(tokens), single(tokens[:, [0, 1, 1, 0, 1]]))


def test_hybrid_sharing_replaces_the_readout_of_any_query_head() -> None:
    for name in ("ml-decoder", "transformer-decoder", "query2label", "tf"):
        head = tagloom.create_head(
            name,
            in_channels=8,
            classes=6,
            width=16,
            decoder={"attention_heads": 2},
            readout={"name": "hybrid-sharing", "shared_experts": 2},
        )
        assert isinstance(head.readout, HybridSharingReadout)
        assert head(torch.zeros(1, 8, 2, 2)).shape == (1, 6)


def test_the_papers_resnet_101_variant_has_hidden_layers_in_gates_and_classifier() -> None:
    with torch.device("meta"):
        head = tagloom.create_head(
            "hsq",
            in_channels=2048,
            classes=80,
            readout={"layer_widths": [1024, 512], "gate_hidden": 128, "classifier_hidden": 64},
        )
    assert [layer.task_gates[0].weight.shape for layer in head.readout.layers] == [(80, 128, 2048), (80, 128, 1024)]
    assert [part.weight.shape for part in head.readout.classifier if hasattr(part, "weight")] == [
        (80, 64, 512),
        (80, 1, 64),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shared_experts": -1}, "readout.shared_experts is -1"),
        ({"task_experts": 0}, "readout.task_experts is 0"),
        ({"layer_widths": 64}, r"for example \[64, 16\]"),
        ({"layer_widths": [64, 0]}, "readout.layer_widths is 0"),
        ({"shared_input": "shred"}, "did you mean 'shared'"),
        ({"name": "per-class", "shared_experts": 2}, "belongs to readout hybrid-sharing"),
    ],
)
def test_wrong_options_say_what_is_right(options: dict[str, object], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        tagloom.create_head("hsq", in_channels=8, classes=4, width=8, decoder={"attention_heads": 2}, readout=options)


def test_readout_dropout_drops_in_training_only() -> None:
    readout = HybridSharingReadout(8, 4, 2, dropout=0.5)
    tokens = torch.randn(2, 4, 8)
    assert torch.equal(readout.eval()(tokens), readout(tokens))
    assert not torch.allclose(readout.train()(tokens), readout(tokens))
