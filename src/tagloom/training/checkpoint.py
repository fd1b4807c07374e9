"""Checkpoints: everything a run needs to continue as if it had never stopped."""

import shutil
from pathlib import Path
from typing import Any

import torch

from tagloom.errors import TagloomError
from tagloom.files import whole_file
from tagloom.wording import first_line

CHECKPOINT_FOLDER = "checkpoint"
NEWEST_FILE = "last.pt"
BEST_FILE = "best.pt"
_BEGIN_ANEW = "Delete its folder to train from the beginning."


class CheckpointError(TagloomError):
    """A checkpoint cannot be written, read, or does not belong to this run."""


class CheckpointStore:
    """Keeps the newest checkpoint and the best weights of a run, each replaced in one step.

    Files are plain tensors and numbers, read back with `weights_only=True`.
    """

    def __init__(self, run: Path, identity: str) -> None:
        self.folder = run / CHECKPOINT_FOLDER
        self.identity = identity

    def save(self, state: dict[str, Any]) -> None:
        """Write the state of a run; an older checkpoint stays until the new one is whole on disk."""
        self._write(NEWEST_FILE, {**state, "identity": self.identity})

    def load(self) -> dict[str, Any] | None:
        """Read the newest checkpoint, or None when the run has none yet."""
        state = self._read(NEWEST_FILE)
        if state is not None and state.get("identity") != self.identity:
            raise CheckpointError(
                f"{self.folder}: belongs to a run with another recipe, other data or another seed, so it cannot be "
                "resumed here. Use the same arguments as before, or another --out."
            )
        return state

    def save_best(self, weights: dict[str, Any]) -> None:
        """Keep the weights of the best epoch so far."""
        self._write(BEST_FILE, weights)

    def load_best(self) -> dict[str, Any] | None:
        """Read the weights of the best epoch."""
        return self._read(BEST_FILE)

    def remove(self) -> None:
        """Delete the checkpoints of a finished run; its tagger folder holds what is needed."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self.folder / name) as partial, partial.open("wb") as file:
                torch.save(content, file)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            raise CheckpointError(
                f"{self.folder / name}: could not be written ({error}). The checkpoint before it is untouched: "
                "make room on the disk and go on with --resume."
            ) from error

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file may fail in any way, and all mean the same
            raise CheckpointError(f"{path}: cannot be read ({first_line(error)}). {_BEGIN_ANEW}") from error
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: is no checkpoint of a run. {_BEGIN_ANEW}")
        return content
