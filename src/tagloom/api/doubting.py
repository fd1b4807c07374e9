"""Doubts about the labels of a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tagloom.api.planning import StrPath, find_recipe
from tagloom.api.scoring import AnyTable, open_table
from tagloom.cache_folder import default_cache_folder
from tagloom.extras import needs_train
from tagloom.recipe import Recipe, change_settings, for_task
from tagloom.terminal import open_console

if TYPE_CHECKING:
    from tagloom.evaluation.doubts import DoubtReport


def find_label_doubts(
    data: AnyTable,
    *,
    recipe: StrPath | Recipe = "quick-gap",
    folds: int = 4,
    count: int = 1000,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    cache: StrPath | None = None,
    data_options: Mapping[str, str] | None = None,
    show_progress: bool = True,
) -> "DoubtReport":
    """Find labels that look wrong or missing, from the scores of taggers that have not seen the image.

    Args:
        data: A label table, or its path.
        recipe: How these taggers are trained. With a frozen backbone, features are extracted once.
        folds: How many parts the table is cut into; each is scored by a tagger of the others.
        count: How many doubts to give, at most, worst first.
        settings: Changes to the recipe by dotted names.
        device: "auto", "cpu", "cuda" or "mps".
        cache: Folder for the features of frozen backbones.
        data_options: How to read the table, as `tagloom.load_table` takes it.
        show_progress: Show progress: a bar on a terminal, plain lines elsewhere.
    """
    with needs_train("finding doubts"):
        from tagloom.training.folds import score_out_of_fold

    from tagloom.evaluation.doubts import doubt_labels

    table = open_table(data, data_options)
    chosen = for_task(change_settings(find_recipe(recipe), dict(settings or {})), table.task)
    found = score_out_of_fold(
        table,
        chosen,
        folds,
        device=device,
        cache_folder=default_cache_folder() if cache is None else Path(cache),
        console=open_console() if show_progress else None,
    )
    return doubt_labels(table, found.rows, found.logits, activation=chosen.activation, count=count)
