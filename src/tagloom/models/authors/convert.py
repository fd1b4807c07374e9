"""From a checkpoint of a paper's authors to a tagger folder."""

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

import tagloom
from tagloom.errors import TaggerError
from tagloom.models.authors.heads import ImportedModel, read_ml_decoder, read_query2label
from tagloom.models.authors.tensors import Tensors, refuse_strange
from tagloom.models.backbone import create_backbone
from tagloom.models.network import TaggerNetwork, count_parameters, export_network, save_weights
from tagloom.models.weights import load_tensors, read_content, read_weights
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.card import model_card
from tagloom.tagger.spec import CARD_FILE, ONNX_FILE, WEIGHTS_FILE, TaggerSpec, write_spec
from tagloom.tagger.whole_folder import check_free, move_into

DEFAULT_SIZE = 448


class Kind(NamedTuple):
    """A kind of checkpoint.

    Attributes:
        read: Takes the tensors apart.
        attention_heads: Of the released models; no file tells their number.
        normalise: Whether the released models read normalised pixels, and not plain ones from 0 to 1.
    """

    read: Callable[[Tensors, int], ImportedModel]
    attention_heads: int
    normalise: bool


KINDS = {
    "ml-decoder": Kind(read_ml_decoder, attention_heads=8, normalise=False),
    "query2label": Kind(read_query2label, attention_heads=4, normalise=True),
}

# timm's names and depths of TResNets, by the channels of their first convolution and whether their first stage has
# bottlenecks; and its names of ResNets, by bottlenecks and depths.
_TRESNETS = {
    (64, False): ("tresnet_m", (3, 4, 11, 3)),
    (64, True): ("tresnet_v2_l", (3, 4, 23, 3)),
    (76, False): ("tresnet_l", (4, 5, 18, 3)),
    (83, False): ("tresnet_xl", (4, 5, 24, 3)),
}
_RESNETS: dict[tuple[bool, tuple[int, ...]], str] = {
    (False, (2, 2, 2, 2)): "resnet18",
    (False, (3, 4, 6, 3)): "resnet34",
    (True, (3, 4, 6, 3)): "resnet50",
    (True, (3, 4, 23, 3)): "resnet101",
    (True, (3, 8, 36, 3)): "resnet152",
}


def import_checkpoint(
    kind: str,
    path: Path,
    out: Path,
    *,
    classes: Sequence[str] | None = None,
    backbone: str | None = None,
    size: int | None = None,
    attention_heads: int | None = None,
    normalise: bool | None = None,
    onnx: bool = True,
) -> TaggerSpec:
    """Turn a checkpoint of a paper's authors, backbone and head, into a tagger folder.

    Args:
        kind: "ml-decoder" or "query2label".
        path: A .safetensors file, or a torch checkpoint that loads with `weights_only=True`.
        out: The folder to write. It must not hold a tagger.
        classes: Names of the classes, in the order of the logits; None for those that ML-Decoder's files hold.
        backbone: timm name of the backbone; None to tell a TResNet or ResNet by its tensors.
        size: Side of the pictures; None for what the file tells, or 448.
        attention_heads: None for the released models' 8 (ML-Decoder) and 4 (Query2Label).
        normalise: Whether pixels are normalised as the backbone's weights usually want it; None for what the authors
            do: ML-Decoder does not, Query2Label does (TResNets need nothing either way).
        onnx: Whether to write model.onnx too.

    Returns:
        What `tagger.json` says.

    Raises:
        TaggerError: If anything in the file is missing, strange or of another shape. Nothing is written then.
    """
    chosen = KINDS[kind]
    check_free(out, (WEIGHTS_FILE, ONNX_FILE, CARD_FILE))
    tensors = Tensors(read_weights(path), path)
    model = chosen.read(tensors, chosen.attention_heads if attention_heads is None else attention_heads)
    names = tuple(classes) if classes is not None else _own_names(path)
    if len(names) != model.classes:
        raise TaggerError(f"{path}: has {model.classes} classes, but {len(names)} names are given for them.")
    name, depths = (backbone, ()) if backbone is not None else _known_backbone(model.backbone, path)
    body = create_backbone(
        name,
        "none",
        size=size or model.size or DEFAULT_SIZE,
        depths=depths,
        normalise=chosen.normalise if normalise is None else normalise,
    )
    refuse_strange(load_tensors(body.net, model.backbone, path), path)
    network = TaggerNetwork(body, model.head).eval()
    spec = TaggerSpec(
        classes=names,
        preprocess=Preprocess(size=size or model.size or DEFAULT_SIZE, fit="squeeze", interpolation="bilinear"),
        backbone=name,
        backbone_depths=depths,
        head=model.head_name,
        head_options=model.head_options,
        recipe={"name": f"imported {kind}"},
        data={
            "imported_from": f"a {kind} checkpoint, {path.name}",
            "sha256": _digest(path),
            "parameters": count_parameters(network)[0],
        },
        version=tagloom.__version__,
    )
    with tempfile.TemporaryDirectory(prefix="tagloom-import-") as temporary:
        made = Path(temporary)
        save_weights(network, made)
        if onnx:
            export_network(network, made / ONNX_FILE, size=spec.preprocess.size)
        (made / CARD_FILE).write_text(model_card(spec), encoding="utf-8", errors="backslashreplace")
        write_spec(spec, made)
        move_into(made, out)
    return spec


def _own_names(path: Path) -> tuple[str, ...]:
    """Give the names of the classes that ML-Decoder's released files hold beside the weights."""
    found = read_content(path).get("idx_to_class")
    numbers = {str(number): name for number, name in found.items()} if isinstance(found, dict) else {}
    names = tuple(numbers.get(str(number)) for number in range(len(numbers)))
    if not names or not all(isinstance(name, str) for name in names):
        raise TaggerError(f"{path}: names no classes. Give them with --classes classes.txt, one in each line.")
    return tuple(str(name) for name in names)


def _known_backbone(found: Mapping[str, Tensor], path: Path) -> tuple[str, tuple[int, ...]]:
    """Tell a TResNet or ResNet by its tensors: its timm name, and its depths where they are not that network's own."""
    stem = next((name for name in ("body.conv1.0.weight", "conv1.weight") if name in found), None)
    if stem is not None:
        body = stem.split("conv1")[0]
        blocks = {tuple(name.removeprefix(body).split(".")[:2]) for name in found if name.startswith(f"{body}layer")}
        stages = [stage for stage, *_ in blocks]
        depths = tuple(stages.count(f"layer{number}") for number in range(1, 5))
        bottlenecks = any(name.startswith(f"{body}layer1.0.conv3.") for name in found)
        known, usual = _TRESNETS.get((found[stem].shape[0], bottlenecks), ("", ()))
        if body and known:
            return known, () if depths == usual else depths
        if not body and (bottlenecks, depths) in _RESNETS:
            return _RESNETS[bottlenecks, depths], ()
    raise TaggerError(
        f"{path}: its backbone is no known TResNet or ResNet. Name it with --backbone, as timm.list_models() does."
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
