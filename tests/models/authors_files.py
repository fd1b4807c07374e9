"""Files with the tensor names and shapes of ML-Decoder's and Query2Label's released models, and plain references.

Names and shapes are facts of the released checkpoints. The references are written from the papers' equations with
torch's own attention and norms, and read the file's tensors by name.
"""

from collections.abc import Mapping
from pathlib import Path

import timm
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Weights = dict[str, Tensor]


def randomised(net: nn.Module, seed: int = 0) -> nn.Module:
    """Give a network weights that no two tensors share, and norms that are not the identity."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in net.state_dict().items():
        if not value.is_floating_point():
            continue
        spread = torch.randn(value.shape, generator=generator) * (1 / max(1, value[0].numel()) ** 0.5)
        positive = name.endswith("running_var") or (value.ndim == 1 and name.endswith("weight"))
        value.copy_(torch.rand(value.shape, generator=generator) + 0.5 if positive else spread)
    return net.eval()


def tresnet_tensors(net: nn.Module) -> Weights:
    """Give the tensors of a timm TResNet under its authors' names, whose norms are InPlaceABN's."""
    found: Weights = {}
    for name, value in net.state_dict().items():
        owner, _, leaf = name.rpartition(".")
        block, _, part = owner.rpartition(".")
        if part in ("conv", "bn") and leaf != "num_batches_tracked":
            blurred = isinstance(getattr(net.get_submodule(block), "aa", None), nn.Module) and not isinstance(
                net.get_submodule(block).aa, nn.Identity
            )
            number = 0 if part == "conv" else 1
            owner = f"{block}.0.{number}" if blurred else f"{block}.{number}"
            if part == "bn" and leaf == "weight":
                value = -(value - 1e-5)  # InPlaceABN takes its absolute value
        elif leaf == "num_batches_tracked":
            continue
        found[f"{owner}.{leaf}"] = value
    return found


def attention_tensors(prefix: str, width: int) -> Weights:
    return {
        f"{prefix}.in_proj_weight": torch.randn(3 * width, width) / width**0.5,
        f"{prefix}.in_proj_bias": torch.randn(3 * width),
        **linear_tensors(f"{prefix}.out_proj", width, width),
    }


def linear_tensors(prefix: str, width_out: int, width_in: int) -> Weights:
    return {
        f"{prefix}.weight": torch.randn(width_out, width_in) / width_in**0.5,
        f"{prefix}.bias": torch.randn(width_out),
    }


def norm_tensors(prefix: str, width: int) -> Weights:
    return {f"{prefix}.weight": torch.rand(width) + 0.5, f"{prefix}.bias": torch.randn(width)}


def ml_decoder_tensors(prefix: str, channels: int, classes: int, queries: int, width: int, hidden: int) -> Weights:
    """Give the tensors of ML-Decoder's head."""
    share = int(classes / queries + 0.999)
    layer = f"{prefix}.decoder.layers.0"
    return {
        **linear_tensors(f"{prefix}.decoder.embed_standart", width, channels),
        f"{prefix}.decoder.query_embed.weight": torch.randn(queries, width),
        **norm_tensors(f"{layer}.norm1", width),
        **attention_tensors(f"{layer}.multihead_attn", width),
        **linear_tensors(f"{layer}.linear1", hidden, width),
        **linear_tensors(f"{layer}.linear2", width, hidden),
        **norm_tensors(f"{layer}.norm2", width),
        **norm_tensors(f"{layer}.norm3", width),
        f"{prefix}.decoder.duplicate_pooling": torch.randn(queries, width, share) / width**0.5,
        f"{prefix}.decoder.duplicate_pooling_bias": torch.randn(classes),
    }


def query2label_tensors(
    channels: int, classes: int, width: int, hidden: int, *, cells: int, project: bool = True, mixing: bool = False
) -> Weights:
    """Give the tensors of Query2Label's head: one encoder layer and two decoder layers."""
    encoder, decoder = "transformer.encoder.layers.0", "transformer.decoder.layers"
    found = {
        "backbone.1.pe": torch.zeros(1, width, cells, cells),
        "query_embed.weight": torch.randn(classes, width),
        "fc.W": torch.randn(1, classes, width) / width**0.5,
        "fc.b": torch.randn(1, classes),
        **attention_tensors(f"{encoder}.self_attn", width),
        **norm_tensors(f"{encoder}.norm1", width),
        **norm_tensors(f"{encoder}.norm2", width),
        **norm_tensors("transformer.decoder.norm", width),
    }
    for layer in (encoder, f"{decoder}.0", f"{decoder}.1"):
        found |= linear_tensors(f"{layer}.linear1", hidden, width) | linear_tensors(f"{layer}.linear2", width, hidden)
    for layer in (f"{decoder}.0", f"{decoder}.1"):
        found |= attention_tensors(f"{layer}.multihead_attn", width)
        found |= norm_tensors(f"{layer}.norm2", width) | norm_tensors(f"{layer}.norm3", width)
    if mixing:
        found |= attention_tensors(f"{decoder}.1.self_attn", width) | norm_tensors(f"{decoder}.1.norm1", width)
    if project:
        found["input_proj.weight"] = torch.randn(width, channels, 1, 1) / channels**0.5
        found["input_proj.bias"] = torch.randn(width)
    return found


def attend(found: Mapping[str, Tensor], prefix: str, heads: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    width = query.shape[-1]
    attention = nn.MultiheadAttention(width, heads, batch_first=True)
    attention.load_state_dict({name: found[f"{prefix}.{name}"] for name in attention.state_dict()})
    return attention.eval()(query, key, value)[0]


def norm(found: Mapping[str, Tensor], prefix: str, tokens: Tensor) -> Tensor:
    return F.layer_norm(tokens, tokens.shape[-1:], found[f"{prefix}.weight"], found[f"{prefix}.bias"])


def linear(found: Mapping[str, Tensor], prefix: str, tokens: Tensor) -> Tensor:
    return F.linear(tokens, found[f"{prefix}.weight"], found[f"{prefix}.bias"])


def feed_forward(found: Mapping[str, Tensor], layer: str, tokens: Tensor) -> Tensor:
    return linear(found, f"{layer}.linear2", F.relu(linear(found, f"{layer}.linear1", tokens)))


def ml_decoder_logits(found: Mapping[str, Tensor], prefix: str, features: Tensor, heads: int = 8) -> Tensor:
    """Compute ML-Decoder's logits from a map (B, C, H, W) and the file's tensors."""
    layer = f"{prefix}.decoder.layers.0"
    memory = F.relu(linear(found, f"{prefix}.decoder.embed_standart", features.flatten(2).transpose(1, 2)))
    target = found[f"{prefix}.decoder.query_embed.weight"].expand(len(features), -1, -1)
    target = norm(found, f"{layer}.norm1", target + target)
    target = norm(
        found, f"{layer}.norm2", target + attend(found, f"{layer}.multihead_attn", heads, target, memory, memory)
    )
    target = norm(found, f"{layer}.norm3", target + feed_forward(found, layer, target))
    bias = found[f"{prefix}.decoder.duplicate_pooling_bias"]
    pooled = torch.einsum("bkd,kdg->bkg", target, found[f"{prefix}.decoder.duplicate_pooling"])
    return pooled.flatten(1)[:, : len(bias)] + bias


def sines(side: int, width: int) -> Tensor:
    """Give the positions (side * side, D) of DETR: rows in the first half of the channels, columns in the second."""
    scale = 2 * torch.pi / (side + 1e-6)
    wavelength = 10_000 ** (2 * (torch.arange(width // 2) // 2) / (width // 2))
    angles = torch.arange(1, side + 1)[:, None] * scale / wavelength
    waves = torch.where(torch.arange(width // 2) % 2 == 0, angles.sin(), angles.cos())
    rows = waves[:, None].expand(-1, side, -1)
    columns = waves[None].expand(side, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1)


def query2label_logits(found: Mapping[str, Tensor], features: Tensor, heads: int = 4) -> Tensor:
    """Compute Query2Label's logits from a map (B, C, H, W) and the file's tensors."""
    if "input_proj.weight" in found:
        features = F.conv2d(features, found["input_proj.weight"], found["input_proj.bias"])
    place = sines(features.shape[-1], features.shape[1])
    layer, memory = "transformer.encoder.layers.0", features.flatten(2).transpose(1, 2)
    asked = memory + place
    memory = norm(found, f"{layer}.norm1", memory + attend(found, f"{layer}.self_attn", heads, asked, asked, memory))
    memory = norm(found, f"{layer}.norm2", memory + feed_forward(found, layer, memory))
    queries = found["query_embed.weight"].expand(len(features), -1, -1)
    target = torch.zeros_like(queries)
    for layer in ("transformer.decoder.layers.0", "transformer.decoder.layers.1"):
        if f"{layer}.norm1.weight" in found:
            asked = target + queries
            target = norm(
                found, f"{layer}.norm1", target + attend(found, f"{layer}.self_attn", heads, asked, asked, target)
            )
        gathered = attend(found, f"{layer}.multihead_attn", heads, target + queries, memory + place, memory)
        target = norm(found, f"{layer}.norm2", target + gathered)
        target = norm(found, f"{layer}.norm3", target + feed_forward(found, layer, target))
    target = norm(found, "transformer.decoder.norm", target)
    return (found["fc.W"] * target).sum(-1) + found["fc.b"]


def save(found: Mapping[str, Tensor], path: Path, **beside: object) -> Path:
    """Write a checkpoint as the authors' scripts do, averaged over machines by DataParallel."""
    torch.save({"state_dict": {f"module.{name}": value for name, value in found.items()}, **beside}, path)
    return path


def make_timm(name: str, **options: object) -> nn.Module:
    """Make a timm model without a classifier."""
    return randomised(timm.create_model(name, num_classes=0, **options))
