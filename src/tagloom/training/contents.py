"""What the images of a run held when it started, so that a resumed run notices those that changed or vanished."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.markup import escape

from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features.prepare import RunBatches
from tagloom.training.tables import Tables
from tagloom.wording import listed


def compare_contents(
    batches: RunBatches, tables: Tables, store: CheckpointStore, allowed: float, context: RunContext
) -> int:
    """Note what the images hold, or compare it with what was noted when the run started.

    A few changed images do not stop a run, but it can then no longer end bit for bit as if it had not stopped, and
    says so. Many mean that these are other data.

    Args:
        batches: The run's.
        tables: The run's.
        store: Holds what was noted.
        allowed: The largest share of changed images to accept.
        context: The run's.

    Returns:
        How many images changed or vanished.
    """
    before = store.load_images()
    if before is None or store.load() is None:  # nothing was learned yet from what the images held then
        store.save_images(torch.from_numpy(batches.contents))
        return 0
    changed = np.flatnonzero((before.numpy() != batches.contents).any(axis=1))
    if not len(changed):
        return 0
    gone = int((~batches.contents[changed].any(axis=1)).sum())
    paths = _paths(tables, changed)
    found = (
        f"{len(changed) - gone} images have changed and {gone} can no longer be read since this run started: "
        f"{listed(paths)}"
    )
    if len(changed) > allowed * len(before):
        raise DataError(
            f"{tables.table.source}: {found}. That is more than data.max_broken allows ({allowed:.1%} of "
            f"{len(before)}). Restore them, or start another run with another --out."
        )
    context.log.event("changed", images=paths)
    context.log.say(
        f"[yellow]{escape(found)}. The run continues with the images as they are now, so it will not end bit for bit "
        "as if it had not stopped.[/]"
    )
    return len(changed)


def changed_note(changed: int) -> dict[str, Any]:
    """Say in a tagger's description that images changed while it was trained; nothing where none did."""
    return {"images_changed_while_training": changed} if changed else {}


def _paths(tables: Tables, rows: NDArray[np.int64]) -> list[str]:
    """Give the files of some rows, counted through the training table and then the validation table."""

    def path(row: int) -> str:
        first = len(tables.table)
        table: LabelTable = tables.table if row < first or tables.val is None else tables.val
        return str(table.image(row if row < first else row - first))

    return [path(row) for row in rows.tolist()]
