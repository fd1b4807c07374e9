"""Checkpoints: everything a run needs to continue as if it had never stopped."""

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tagloom.errors import TagloomError
from tagloom.files import whole_file
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables
from tagloom.wording import first_line

CHECKPOINT_FOLDER = "checkpoint"
NEWEST_FILE = "last.pt"
BEST_FILE = "best.pt"
_START_AGAIN = "Delete its folder to train from the beginning."


class CheckpointError(TagloomError):
    """A checkpoint cannot be written or read, or does not belong to this run."""


def run_identity(plan: RunPlan, tables: Tables) -> str:
    """Name a run by everything that decides its result, so that no other run resumes from its checkpoints."""
    plan = plan.placed()  # as it is read back when the run is resumed
    distill = None if plan.distill is None else asdict(plan.distill)
    choices = [plan.recipe.to_dict(), plan.start or "", plan.classes, plan.images, distill]
    digest = hashlib.blake2b(json.dumps(choices, sort_keys=True).encode(), digest_size=16)
    digest.update(tables.held_out.tobytes())
    for table in [tables.table] if tables.val is None else [tables.table, tables.val]:
        digest.update(table.fingerprint().encode())
    return digest.hexdigest()


class CheckpointStore:
    """Keeps the newest checkpoint and the best weights of a run, each replaced in one step.

    Files are plain tensors and numbers, read back with `weights_only=True`.
    """

    def __init__(self, run: Path, identity: str) -> None:
        self.folder = run / CHECKPOINT_FOLDER
        self.identity = identity

    def save(self, state: dict[str, Any]) -> None:
        """Write the state of a run; the checkpoint before stays until the new one is complete on disk."""
        self._write(NEWEST_FILE, {**state, "identity": self.identity})

    def load(self) -> dict[str, Any] | None:
        """Read the newest checkpoint; None if the run has none yet."""
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
        """Read the weights of the best epoch; None if there are none yet."""
        return self._read(BEST_FILE)

    def remove(self) -> None:
        """Delete the checkpoints of a finished run; the tagger folder holds all that is needed."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self.folder / name) as partial, partial.open("wb") as file:
                torch.save(content, file)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            raise CheckpointError(
                f"{self.folder / name}: could not be written ({error}). The checkpoint before it is untouched: "
                "make room on the disk and continue with --resume."
            ) from error

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file may fail in any way
            raise CheckpointError(f"{path}: cannot be read ({first_line(error)}). {_START_AGAIN}") from error
        if not isinstance(content, dict):
            raise CheckpointError(f"{path}: is not a checkpoint of a run. {_START_AGAIN}")
        return content
