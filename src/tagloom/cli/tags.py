"""`tagloom tags`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tagloom.cli.arguments import MaxTags, Precision, Recall, Threshold, TopK, name_left_out
from tagloom.cli.predict import tags_line
from tagloom.terminal import open_console, print_line
from tagloom.wording import counted


def tags(
    scores: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES...", help="Files that tagloom predict --scores has written, for example of shards."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the tags to this .csv, .jsonl or .parquet file (default: print them).")
    ] = None,
    threshold: Threshold = None,
    top_k: TopK = None,
    max_tags: MaxTags = None,
    precision: Precision = None,
    recall: Recall = None,
) -> None:
    """Make tags from kept scores, with other thresholds or fewer tags, without looking at a picture.

    Example: tagloom tags scores.parquet --max-tags 8 --out tags.csv

    The scores come from tagloom predict photos --scores scores.parquet. Several files become one file of tags.
    """
    from tagloom.predict.from_scores import rule_of, tags_from_scores, write_tags_from_scores
    from tagloom.predict.score_files import open_scores

    console = open_console()
    asked: dict[str, Any] = {
        "threshold": threshold,
        "top_k": top_k,
        "max_tags": max_tags,
        "precision": precision,
        "recall": recall,
    }
    if precision is not None or recall is not None:
        first = open_scores(scores[0])
        name_left_out(rule_of(first, **asked).left_out, first.held_out, precision, recall)
    if out:
        count = write_tags_from_scores(scores, out, **asked)
        print_line(console, f"{counted(count, 'image')} tagged, in {out}")
        return
    for image, found in tags_from_scores(scores, **asked):
        console.print(tags_line(image, found), soft_wrap=True)
