"""The packages that the small install leaves out: a missing one becomes a message that names the extra to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from tagloom.errors import MissingExtraError

_TRAIN_PACKAGES = ("torch", "timm", "safetensors", "onnx", "onnxscript")
_SERVE_PACKAGES = ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "starlette")


@contextmanager
def needs_train(what: str) -> Iterator[None]:
    """Import something that needs torch inside this block.

    Args:
        what: The work that needs it, as the message names it.

    Raises:
        MissingExtraError: If a package of the extra `train` is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _TRAIN_PACKAGES:
            raise
        raise MissingExtraError(what, "train") from error


@contextmanager
def needs_serve(what: str) -> Iterator[None]:
    """Import something that needs a web server inside this block; see `needs_train`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SERVE_PACKAGES:
            raise
        raise MissingExtraError(what, "serve") from error
