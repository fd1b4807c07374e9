"""Tags from kept scores: the choice of tags again, without a tagger and without a picture."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tagloom.errors import DataError
from tagloom.predict.files import Renaming
from tagloom.predict.score_files import ScoreFile, open_scores
from tagloom.predict.tag_files import check_tag_file, write_rows, writing
from tagloom.scoring.tags import Tag, TagRule, tag_rule


def tags_from_scores(
    paths: Sequence[Path],
    *,
    threshold: float | None = None,
    top_k: int | None = None,
    max_tags: int | None = None,
    precision: float | None = None,
    recall: float | None = None,
    folder: Path | None = None,
) -> Iterator[tuple[str, list[Tag]]]:
    """Give the name and the tags of each image, file after file.

    Args:
        paths: Files of scores of the same classes.
        threshold: See `Tagger.predict`.
        top_k: See `Tagger.predict`.
        max_tags: See `Tagger.predict`.
        precision: See `Tagger.predict`.
        recall: See `Tagger.predict`.
        folder: Name images relative to this folder; None for the names that stand in the files.
    """
    files = [open_scores(path) for path in paths]
    _check_same_classes(files)
    for file in files:
        rule = rule_of(file, threshold=threshold, top_k=top_k, max_tags=max_tags, precision=precision, recall=recall)
        rename = Renaming(file.path.parent, folder or file.path.parent)
        for image, row in file:
            yield rename(image), rule.tags(row.astype("float32"))


def rule_of(file: ScoreFile, **asked: Any) -> TagRule:
    """Say which classes of a file of scores become tags; the options are those of `tag_rule`."""
    return tag_rule(file.classes, file.thresholds, file.task, held_out=file.held_out, **asked)


def write_tags_from_scores(
    paths: Sequence[Path],
    out: Path,
    *,
    threshold: float | None = None,
    top_k: int | None = None,
    max_tags: int | None = None,
    precision: float | None = None,
    recall: float | None = None,
) -> int:
    """Write the tags of `tags_from_scores` to a .csv, .jsonl or .parquet file, and give the number of images."""
    check_tag_file(out)
    rows = tags_from_scores(
        paths,
        threshold=threshold,
        top_k=top_k,
        max_tags=max_tags,
        precision=precision,
        recall=recall,
        folder=out.parent,
    )
    with writing(out):
        return write_rows(rows, out)


def _check_same_classes(files: Sequence[ScoreFile]) -> None:
    for file in files[1:]:
        if file.classes != files[0].classes:
            raise DataError(
                f"{file.path}: has other classes than {files[0].path}, so these are scores of two taggers. Make tags "
                "from each on its own."
            )
