"""The heads of ML-Decoder's and Query2Label's released models, from their authors' tensor names."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from tagloom.errors import TaggerError
from tagloom.labels.groups import group_classes
from tagloom.models.authors.tensors import Tensors, attention, feed_forward, linear, norm
from tagloom.models.heads import Head, create_head
from tagloom.models.heads.readout import GroupReadout

PIXELS_PER_CELL = 32  # of the map that Query2Label's positions are made for


@dataclass(frozen=True)
class ImportedModel:
    """What a checkpoint holds.

    Attributes:
        head_name: A key of `HEADS`.
        head_options: Options that rebuild the head.
        head: With the checkpoint's weights.
        backbone: The tensors of the backbone, under its authors' names.
        classes: N.
        size: Side of the pictures it was trained for, if the file tells.
    """

    head_name: str
    head_options: dict[str, Any]
    head: Head
    backbone: dict[str, Tensor]
    classes: int
    size: int | None


def read_ml_decoder(tensors: Tensors, attention_heads: int) -> ImportedModel:
    """Take ML-Decoder's head, under `head.` (TResNet) or `fc.` (ResNet), and what is left as the backbone.

    Class i is the (i mod g)-th of query i div g, so the last query may have fewer classes than the others, and queries
    beyond it none. Those read nothing and are left out.
    """
    theirs = "fc.decoder" if "fc.decoder.embed_standart.weight" in tensors else "head.decoder"
    if f"{theirs}.query_embed.weight" not in tensors and f"{theirs.split('.')[0]}.wordvec_proj.weight" in tensors:
        raise TaggerError(
            f"{tensors.path}: is a zero-shot model, whose words are in no file. Train one: --recipe quick-words."
        )
    width, channels = tensors.shape(f"{theirs}.embed_standart.weight", 2)
    queries, _, share = tensors.shape(f"{theirs}.duplicate_pooling", 3)
    (classes,) = tensors.shape(f"{theirs}.duplicate_pooling_bias", 1)
    if classes > queries * share:
        raise TaggerError(f"{tensors.path}: {queries} queries of {share} classes are too few for {classes} classes.")
    groups = [list(range(first, min(first + share, classes))) for first in range(0, classes, share)]
    consecutive = group_classes(classes, len(groups), "consecutive") == groups
    layer = f"{theirs}.layers.0"
    options: dict[str, Any] = {
        "width": width,
        "decoder": {
            "attention_heads": attention_heads,
            "feed_forward": tensors.shape(f"{layer}.linear1.weight", 2)[0],
        },
        "readout": {"groups": len(groups), "grouping": "consecutive"} if consecutive else {"grouping": groups},
    }
    head = create_head("ml-decoder", in_channels=channels, classes=classes, **options)
    readout = cast(GroupReadout, head.readout)
    ours = "decoder.layers.0"
    pooling = tensors.take(f"{theirs}.duplicate_pooling", queries, width, share)
    _load(
        head,
        {
            **linear(tensors, f"{theirs}.embed_standart", "embed", width, channels),
            "queries.vectors": tensors.take(f"{theirs}.query_embed.weight", queries, width)[: len(groups)],
            **norm(tensors, f"{layer}.norm1", f"{ours}.mixing.norm", width),
            **attention(tensors, f"{layer}.multihead_attn", f"{ours}.attention", width),
            **norm(tensors, f"{layer}.norm2", f"{ours}.norm", width),
            **feed_forward(tensors, layer, f"{ours}.feed_forward", width, "norm3"),
            "readout.weight": _laid_out(pooling, readout),
            "readout.bias": tensors.take(f"{theirs}.duplicate_pooling_bias", classes),
        },
    )
    backbone = tensors.take_under("")
    strange = {name: value for name, value in backbone.items() if name.startswith(f"{theirs.split('.')[0]}.")}
    Tensors(strange, tensors.path).check_all_taken()
    return ImportedModel("ml-decoder", options, head, backbone, classes, None)


def read_query2label(tensors: Tensors, attention_heads: int) -> ImportedModel:
    """Take Query2Label's head, and what is under `backbone.0.` as the backbone.

    Without `input_proj` the transformer reads the features as they are. Positions are computed, not taken; their shape
    tells the size of the pictures.
    """
    classes, width = tensors.shape("query_embed.weight", 2)
    channels = tensors.shape("input_proj.weight", 4)[1] if "input_proj.weight" in tensors else width
    encoders, decoders = tensors.count("transformer.encoder.layers."), tensors.count("transformer.decoder.layers.")
    mixing = [f"transformer.decoder.layers.{number}.self_attn.in_proj_weight" in tensors for number in range(decoders)]
    if mixing not in ([False] * decoders, [False] + [True] * (decoders - 1)):
        raise TaggerError(
            f"{tensors.path}: its first decoder layer has self-attention (keep_first_self_attn_dec), which mixes "
            "targets of zeros; Tagloom's heads have none there."
        )
    hidden = tensors.shape("transformer.decoder.layers.0.linear1.weight", 2)[0]
    options: dict[str, Any] = {
        "width": width,
        "decoder": {
            "name": "self-attention" if any(mixing) else "cross-attention",
            "layers": decoders,
            "encoder_layers": encoders,
            "attention_heads": attention_heads,
            "feed_forward": hidden,
        },
    }
    head = create_head("query2label", in_channels=channels, classes=classes, **options)
    found = _query2label_layers(tensors, encoders, mixing, width)
    if "input_proj.weight" in tensors:
        found["embed.weight"] = tensors.take("input_proj.weight", width, channels, 1, 1).flatten(1)
        found["embed.bias"] = tensors.take("input_proj.bias", width)
    else:
        found["embed.weight"], found["embed.bias"] = torch.eye(width), torch.zeros(width)
    found["queries.vectors"] = tensors.take("query_embed.weight", classes, width)
    found["readout.weight"] = tensors.take("fc.W", 1, classes, width)[0]
    found["readout.bias"] = tensors.take("fc.b", 1, classes)[0]
    _load(head, found)
    positions = tensors.take_under("backbone.1.").get("pe")
    size = None if positions is None or positions.ndim != 4 else positions.shape[-1] * PIXELS_PER_CELL
    body = tensors.take_under("backbone.0.")
    tensors.check_all_taken()
    backbone = {name.removeprefix("body."): value for name, value in body.items()}
    return ImportedModel("query2label", options, head, backbone, classes, size)


def _query2label_layers(tensors: Tensors, encoders: int, mixing: list[bool], width: int) -> dict[str, Tensor]:
    """Take the encoder and decoder layers, and the norm after the last."""
    found: dict[str, Tensor] = {}
    for number in range(encoders):
        theirs, ours = f"transformer.encoder.layers.{number}", f"decoder.encoder.{number}"
        found |= attention(tensors, f"{theirs}.self_attn", f"{ours}.self_attention.attention", width)
        found |= norm(tensors, f"{theirs}.norm1", f"{ours}.self_attention.norm", width)
        found |= feed_forward(tensors, theirs, f"{ours}.feed_forward", width, "norm2")
    for number, mixes in enumerate(mixing):
        theirs, ours = f"transformer.decoder.layers.{number}", f"decoder.layers.{number}"
        if mixes:
            found |= attention(tensors, f"{theirs}.self_attn", f"{ours}.mixing.attention", width)
            found |= norm(tensors, f"{theirs}.norm1", f"{ours}.mixing.norm", width)
        found |= attention(tensors, f"{theirs}.multihead_attn", f"{ours}.attention", width)
        found |= norm(tensors, f"{theirs}.norm2", f"{ours}.norm", width)
        found |= feed_forward(tensors, theirs, f"{ours}.feed_forward", width, "norm3")
    return found | norm(tensors, "transformer.decoder.norm", "decoder.norm", width)


def _laid_out(pooling: Tensor, readout: GroupReadout) -> Tensor:
    """Put the column (D,) of each class, at (i div g, :, i mod g) in the file, where our readout has it."""
    columns = pooling.transpose(1, 2).flatten(0, 1)[: len(readout.place_of_class)]  # (N, D)
    rows, width, size = readout.weight.shape
    laid_out = torch.zeros(rows * size, width)
    laid_out[readout.place_of_class] = columns
    return laid_out.view(rows, size, width).transpose(1, 2).contiguous()


def _load(head: Head, found: dict[str, Tensor]) -> None:
    """Fill a head; what is not in the file is what a head computes for itself."""
    head.load_state_dict(head.state_dict() | found)
