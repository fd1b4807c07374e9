"""Images that a run could not read: listed in broken.csv before the first epoch, in log.jsonl if they vanish later."""

import csv
from collections.abc import Iterable, Sequence

from rich.markup import escape

from tagloom.data.parsing.image_paths import path_field
from tagloom.errors import ImageError
from tagloom.files import whole_file
from tagloom.training.context import RunContext
from tagloom.training.features.batches import Batches
from tagloom.training.features.picture_batches import PictureBatches
from tagloom.training.log import LOG_FILE

BROKEN_FILE = "broken.csv"


def note_broken(broken: Sequence[ImageError], context: RunContext) -> None:
    """List the images that were left out, by path and reason."""
    if not broken or not context.world.is_first:
        return
    path = context.out / BROKEN_FILE
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "problem"])
        writer.writerows((path_field(error.path), error.finding) for error in broken)
    context.log.event("broken", count=len(broken))
    context.log.say(f"[yellow]{len(broken)} images cannot be read and are left out; {escape(str(path))} lists them[/]")


def note_skipped(parts: Iterable[Batches | None], context: RunContext) -> None:
    """List the images that could be read before the first epoch, but not during training."""
    for batches in parts:
        mine = set(batches.skipped.values()) if isinstance(batches, PictureBatches) else set()
        skipped = sorted(set().union(*context.world.gather(sorted(mine))))
        if skipped:
            context.log.event("skipped", images=skipped)
            context.log.say(
                f"[yellow]{len(skipped)} images could no longer be read and were skipped; see {LOG_FILE}[/]"
            )
