"""Checkpoints: everything a run needs to continue as if it had never stopped.

A checkpoint file is a mark, the BLAKE2b checksum of the rest, and the rest: plain tensors and numbers as torch saves
them, read back with `weights_only=True`. The checksum is compared before anything is read.
"""

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

import torch

from tagloom.errors import TagloomError
from tagloom.files import whole_file
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables, label_fingerprint
from tagloom.wording import first_line

CHECKPOINT_FOLDER = "checkpoint"
NEWEST_FILE = "last.pt"
IMAGES_FILE = "images.pt"
_MARK = b"tagloom ckpt 2\n\n"
_DIGEST_BYTES = 16
_START_AGAIN = "Delete its folder to train from the beginning."


def best_file(epoch: int) -> str:
    """Name the file of the weights after an epoch, counted from 0. Each has its own, since the checkpoint names one."""
    return f"best-{epoch + 1}.pt"


class CheckpointError(TagloomError):
    """A checkpoint cannot be written or read, or does not belong to this run."""


def run_identity(plan: RunPlan, tables: Tables) -> str:
    """Name a run by everything that decides its result, so that no other run resumes from its checkpoints.

    What the images hold is part of it as well, and compared apart: see `tagloom.training.contents`.
    """
    plan = plan.placed()  # as it is read back when the run is resumed
    distill = None if plan.distill is None else asdict(plan.distill)
    choices = [plan.recipe.to_dict(), plan.start or "", plan.classes, plan.images, distill]
    digest = hashlib.blake2b(json.dumps(choices, sort_keys=True).encode(), digest_size=16)
    digest.update(tables.held_out.tobytes())
    for table in [tables.table] if tables.val is None else [tables.table, tables.val]:
        digest.update(label_fingerprint(table).encode())
    return digest.hexdigest()


class CheckpointStore:
    """Keeps the newest checkpoint and the best weights of a run, each replaced in one step."""

    def __init__(self, run: Path, identity: str) -> None:
        self.folder = run / CHECKPOINT_FOLDER
        self.identity = identity

    def save(self, state: dict[str, Any]) -> None:
        """Write the state of a run; the checkpoint before stays until the new one is complete on disk."""
        self._write(NEWEST_FILE, state)

    def load(self) -> dict[str, Any] | None:
        """Read the newest checkpoint; None if the run has none yet."""
        return self._read(NEWEST_FILE)

    def save_best(self, epoch: int, weights: dict[str, Any]) -> None:
        """Keep the weights of the best epoch so far. Those before stay until `drop_bests_but` is called."""
        self._write(best_file(epoch), {"weights": weights, "epoch": epoch})

    def load_best(self, epoch: int) -> dict[str, Any]:
        """Read the weights of the epoch that the checkpoint names as the best."""
        content = self._read(best_file(epoch))
        if content is None or content.get("epoch") != epoch:
            raise CheckpointError(
                f"{self.folder / best_file(epoch)}: the weights of the best epoch are missing. {_START_AGAIN}"
            )
        weights: dict[str, Any] = content["weights"]
        return weights

    def drop_bests_but(self, epoch: int) -> None:
        """Delete the weights of all epochs but one. Call it when a checkpoint that names this one is saved."""
        for path in self.folder.glob("best-*.pt"):
            if path.name != best_file(epoch):
                with suppress(OSError):
                    path.unlink()

    def save_images(self, contents: torch.Tensor) -> None:
        """Keep what the images of the run held when it started, (images, bytes of a hash)."""
        self._write(IMAGES_FILE, {"contents": contents})

    def load_images(self) -> torch.Tensor | None:
        """Read what the images held when the run started; None if that was not noted."""
        content = self._read(IMAGES_FILE)
        return None if content is None else content["contents"]

    def remove(self) -> None:
        """Delete the checkpoints of a finished run; the tagger folder holds all that is needed."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self.folder / name) as partial, partial.open("wb") as file:
                file.write(_MARK + bytes(_DIGEST_BYTES))
                hashed = _Hashed(file)
                torch.save({**content, "identity": self.identity}, cast(IO[bytes], hashed))
                file.seek(len(_MARK))
                file.write(hashed.digest.digest())
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            raise CheckpointError(
                f"{self.folder / name}: could not be written ({first_line(error)}). The checkpoint before it is "
                "untouched: make room on the disk and continue with --resume."
            ) from error

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            with path.open("rb") as file:
                _check_sum(file)
                content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file may fail in any way
            raise CheckpointError(f"{path}: cannot be read ({first_line(error)}). {_START_AGAIN}") from error
        if not isinstance(content, dict) or "identity" not in content:
            raise CheckpointError(f"{path}: is not a checkpoint of a run. {_START_AGAIN}")
        if content["identity"] != self.identity:
            raise CheckpointError(
                f"{path}: belongs to a run with another recipe, other data or another seed, so it cannot be "
                "resumed here. Use the same arguments as before, or another --out."
            )
        return content


class _Hashed:
    """A file that is written once from front to back, and the checksum of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _check_sum(file: IO[bytes]) -> None:
    """Compare the checksum of a checkpoint, and leave the file where its content begins."""
    mark, wanted = file.read(len(_MARK)), file.read(_DIGEST_BYTES)
    if mark != _MARK:
        raise ValueError("it was written by another version of Tagloom, or is no checkpoint")
    start, digest = file.tell(), hashlib.blake2b(digest_size=_DIGEST_BYTES)
    while block := file.read(2**20):
        digest.update(block)
    if digest.digest() != wanted:
        raise ValueError("it is damaged: its checksum does not match")
    file.seek(start)
