"""Adding the insides to a network that an older Tagloom exported, from the weights in the file itself.

Training exports a head together with its evidence. A package from before has logits only, and often no torch weights.
The ONNX file of an ML-Decoder still names most tensors of the head; the matrices of linear layers have lost their
names, but each is multiplied right before its named bias is added. So the head is rebuilt, its evidence exported, and
joined to the file. The logits are those of the old nodes, untouched.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.files import whole_file
from tagloom.models.heads import Head, create_head
from tagloom.models.onnx_export import write_graph
from tagloom.tagger.onnx_check import check_onnx
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.outputs import EVIDENCE, FEATURES, LOGITS
from tagloom.tagger.spec import TaggerSpec

TOLERANCE = 1e-3  # of the rebuilt head's logits, relative to the largest
_HEAD = "head."


class _Evidence(nn.Module):
    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, C, h, w) to evidence (B, N, h, w)."""
        return self.head.evidence(features)


def add_insides(source: Path, target: Path, spec: TaggerSpec) -> None:
    """Write a copy of an exported network that also gives its evidence and its last map.

    Args:
        source: `model.onnx` with one output, the logits.
        target: The file to write.
        spec: What `tagger.json` says.

    Raises:
        TaggerError: If the head cannot be rebuilt: it reads stages or words, or the rebuilt one gives other logits.
    """
    import onnx

    if spec.words is not None or spec.head_options.get("stages") or spec.head == "layover":
        raise TaggerError(
            f"{source}: was exported without what heat maps need, and its head, {spec.head}, cannot be rebuilt from "
            "it. Export it again from the run that it came from."
        )
    check_onnx(source)
    model = onnx.load(str(source))
    tensors = _tensors(model)
    try:
        head = _rebuilt_head(model, tensors, spec)
    except (KeyError, RuntimeError, ValueError) as error:
        raise TaggerError(
            f"{source}: was exported without what heat maps need, and does not name the weights of its head ({error}). "
            "Export it again from the run that it came from."
        ) from error
    _show_features(model, len(head.scales[0].mean))  # type: ignore[arg-type]
    _rename(model, model.graph.output[0].name, LOGITS)
    side = [size.dim_value for size in model.graph.output[1].type.tensor_type.shape.dim][1:]
    with tempfile.TemporaryDirectory() as folder, whole_file(target) as partial:
        part = Path(folder, "evidence.onnx")
        opset = next(entry.version for entry in model.opset_import if not entry.domain)
        # Not folded: its weights are those of the file, and are found there by their names.
        write_graph(_Evidence(head), part, (torch.zeros(2, *side),), [FEATURES], [EVIDENCE], opset=opset, fold=False)
        _join(model, onnx.load(str(part)), tensors)
        onnx.save(model, str(partial))
        check_onnx(partial)
        _prove(head, partial, source, spec.preprocess.size)


def _tensors(model: Any) -> dict[str, NDArray[np.float32]]:
    """Give every tensor of the file under the name that its nodes use: those stored in float16 after their Cast."""
    import onnx

    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Cast" and node.input[0] in stored:
            stored[node.output[0]] = stored[node.input[0]].astype(np.float32)
    return stored


def _rebuilt_head(model: Any, tensors: dict[str, NDArray[np.float32]], spec: TaggerSpec) -> Head:
    made_by = {name: node for node in model.graph.node for name in node.output}
    found = {name.removeprefix(_HEAD): values for name, values in tensors.items() if name.startswith(_HEAD)}
    for node in model.graph.node:
        bias = next((name for name in node.input if name.startswith(_HEAD) and name.endswith(".bias")), None)
        if bias is None:
            continue
        products = [made_by[name] for name in node.input if name in made_by]
        if node.op_type == "Add" and len(products) == 1 and products[0].op_type == "MatMul":
            matrix = tensors.get(products[0].input[1])
            if matrix is not None:
                found.setdefault(bias.removeprefix(_HEAD).removesuffix("bias") + "weight", matrix.T)
    head = create_head(
        spec.head, in_channels=len(found["scales.0.mean"]), classes=len(spec.classes), **spec.head_options
    )
    state = head.state_dict()
    if missing := [name for name, value in state.items() if value.is_floating_point() and name not in found]:
        raise KeyError(missing[0])
    # Whole numbers say which classes share a query; options and seed decide them, as they did in training.
    head.load_state_dict({name: torch.tensor(found.get(name, value.numpy())) for name, value in state.items()})
    return head.eval()


def _show_features(model: Any, channels: int) -> None:
    """Make the last map (B, C, h, w) of the backbone an output."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    shapes = {info.name: [size.dim_value for size in info.type.tensor_type.shape.dim] for info in inferred}
    order = [name for node in model.graph.node for name in node.output]
    maps = [name for name in order if len(shapes.get(name, ())) == 4 and shapes[name][1] == channels]
    if not maps:
        raise TaggerError("its last feature map was not found in the file. Train it again.")
    info = next(info for info in inferred if info.name == maps[-1])
    model.graph.output.append(info)
    _rename(model, maps[-1], FEATURES)


def _rename(model: Any, old: str, new: str) -> None:
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    for info in model.graph.output:
        info.name = new if info.name == old else info.name


def _join(model: Any, part: Any, tensors: dict[str, NDArray[np.float32]]) -> None:
    """Append a graph that reads the features; a weight that the file has already is not stored again."""
    import onnx

    held = {(values.shape, values.dtype.str, values.tobytes()): name for name, values in reversed(tensors.items())}
    known: dict[str, str] = {FEATURES: FEATURES, EVIDENCE: EVIDENCE}
    for tensor in part.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        same = held.get((values.shape, values.dtype.str, values.tobytes()))
        known[tensor.name] = same or f"evidence/{tensor.name}"
        if same is None:
            tensor.name = known[tensor.name]
            model.graph.initializer.append(tensor)
    for node in part.graph.node:
        for names in (node.input, node.output):
            names[:] = [known.setdefault(name, f"evidence/{name}") if name else "" for name in names]
        node.name = f"evidence/{node.name}"
        model.graph.node.append(node)
    evidence = part.graph.output[0]
    shown = model.graph.output.pop()
    model.graph.output.extend([evidence, shown])  # in the order of `INSIDES`


def _prove(head: Head, path: Path, source: Path, size: int) -> None:
    """Compare the rebuilt head, on the file's own features, with the file's logits and evidence."""
    pictures = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    before = OnnxNetwork(source)(pictures)[0]
    logits, evidence, features = OnnxNetwork(path)(pictures)
    with torch.no_grad():
        ours = (head(torch.from_numpy(features)).numpy(), head.evidence(torch.from_numpy(features)).numpy())
    worst = max(
        float(np.abs(logits - before).max() / max(1.0, np.abs(before).max())),
        float(np.abs(logits - ours[0]).max() / max(1.0, np.abs(ours[0]).max())),
        float(np.abs(evidence - ours[1]).mean() / max(1.0, np.abs(ours[1]).max())),
    )
    if not worst <= TOLERANCE:
        raise TaggerError(f"{source}: the head rebuilt from it differs by {worst:.1e}, so nothing was written.")
