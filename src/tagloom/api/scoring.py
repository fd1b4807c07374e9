"""`tagloom.evaluate` and `tagloom.compare`."""

import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast, overload

from tagloom.api.planning import StrPath
from tagloom.api.result import TrainedTagger
from tagloom.errors import TagloomError, unknown_name
from tagloom.progress import show_progress as progress_of
from tagloom.recipe.parts import MAX_BROKEN_SHARE
from tagloom.terminal import open_console
from tagloom.wording import listed, printable, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tagloom.data import LabelTable
    from tagloom.evaluation.compare import Comparison
    from tagloom.evaluation.evaluate import Evaluation, ScoredImages
    from tagloom.labels.split import LabelSplit
    from tagloom.predict.tagger import Tagger

AnyTagger: TypeAlias = "Tagger | TrainedTagger | StrPath"
AnyTable: TypeAlias = "LabelTable | StrPath"


def evaluate(
    tagger: AnyTagger,
    data: AnyTable,
    *,
    threshold: "float | NDArray[np.float32] | None" = None,
    top_k: int = 3,
    max_broken: float = MAX_BROKEN_SHARE,
    ignore_other_labels: bool = False,
    split: "StrPath | LabelSplit | None" = None,
    score_images: "ScoredImages" = "all",
    words: str | None = None,
    device: str = "auto",
    data_options: Mapping[str, str] | None = None,
    show_progress: bool = True,
) -> "Evaluation":
    """Score a tagger on a labelled table: mAP, precision, recall, F1, and how well its scores are calibrated.

    Args:
        tagger: A tagger, the result of a training, a tagger folder, or "hf-hub:owner/name".
        data: A label table, or its path.
        threshold: One threshold for all classes, or one for each; by default the tagger's own.
        top_k: How many labels per image the `_top…` metrics allow.
        max_broken: The largest share of unreadable images to accept.
        ignore_other_labels: Leave out labels of the table that the tagger does not know, instead of refusing them.
        split: Labels that were not trained: a file that lists them, a .json with "test class", "random:COUNT:SEED" or
            a `LabelSplit`. A tagger with word queries is then scored on these alone (ZSL) and among all labels (GZSL).
        score_images: With a split, score "all" images, or only those "with-unseen" labels, as published zero-shot
            figures on NUS-WIDE do.
        words: Where the vectors of new labels come from, if the tagger's own source has moved or is a model.
        device: "auto", "cpu", "cuda" or "mps"; for a tagger that is not loaded yet.
        data_options: How to read the table, as `tagloom.load_table` takes it.
        show_progress: Show progress: a bar on a terminal, plain lines elsewhere.

    Returns:
        The metrics with the scores behind them. It shows itself in a notebook.

    Raises:
        TagloomError: Saying what is wrong, where, and what to do.

    Examples:
        >>> import tagloom
        >>> tagloom.evaluate("runs/first", "val.csv")  # doctest: +SKIP
        Evaluation(24 classes, 400 images: mAP 71.23, CF1 65.10, OF1 68.42)
    """
    from tagloom.evaluation.evaluate import evaluate as evaluate_tagger
    from tagloom.evaluation.evaluate import evaluate_split

    if split is not None and (threshold is not None or ignore_other_labels):
        raise TagloomError("split measures rankings: leave out threshold and ignore_other_labels.")
    if score_images not in (choices := ("all", "with-unseen")):
        raise TagloomError(unknown_name("score_images", score_images, choices))
    if split is None and score_images != "all":
        raise TagloomError("score_images chooses images by their unseen labels: name these with split.")
    loaded, table = open_tagger(tagger, device, words), open_table(data, data_options)
    if isinstance(split, str | os.PathLike):
        split, notes = choose_split(loaded, table, os.fspath(split))
        for note in notes:
            warnings.warn(note, stacklevel=2)
    with progress_of(open_console() if show_progress else None, f"scoring ({loaded.engine})") as progress:
        if split is not None:
            return evaluate_split(
                loaded, table, split, score_images=score_images, max_broken=max_broken, progress=progress
            )
        return evaluate_tagger(
            loaded,
            table,
            threshold=threshold,
            top_k=top_k,
            max_broken=max_broken,
            ignore_other_labels=ignore_other_labels,
            progress=progress,
        )


@overload  # a path is a sequence of letters, but it is found first
def compare(  # type: ignore[overload-overlap]
    first: AnyTagger,
    second: AnyTagger,
    data: AnyTable,
    *,
    ignore_other_labels: bool = ...,
    resamples: int = ...,
    device: str = ...,
    data_options: Mapping[str, str] | None = ...,
    show_progress: bool = ...,
) -> "Comparison": ...
@overload
def compare(
    first: AnyTagger,
    second: "Sequence[AnyTagger]",
    data: AnyTable,
    *,
    ignore_other_labels: bool = ...,
    resamples: int = ...,
    device: str = ...,
    data_options: Mapping[str, str] | None = ...,
    show_progress: bool = ...,
) -> "tuple[Comparison, ...]": ...
def compare(
    first: AnyTagger,
    second: "AnyTagger | Sequence[AnyTagger]",
    data: AnyTable,
    *,
    ignore_other_labels: bool = False,
    resamples: int = 1000,
    device: str = "auto",
    data_options: Mapping[str, str] | None = None,
    show_progress: bool = True,
) -> "Comparison | tuple[Comparison, ...]":
    """Compare two taggers on the same labelled images: which labels gained, which lost, and how sure that is.

    Args:
        first: The tagger to start from: a tagger, the result of a training, a folder, or "hf-hub:owner/name".
        second: The tagger that may be better, or a list of several, each of which is compared with the first.
        data: A label table, or its path.
        ignore_other_labels: Leave out labels of the table that a tagger does not know, instead of refusing them.
        resamples: How often to resample the images for the 95 % intervals; 0 leaves the intervals out.
        device: "auto", "cpu", "cuda" or "mps"; for taggers that are not loaded yet.
        data_options: How to read the table, as `tagloom.load_table` takes it.
        show_progress: Show progress: a bar on a terminal, plain lines elsewhere.

    Returns:
        The change of mAP and of every label; it shows itself in a notebook. For a list, one for each tagger in it, all
        about the same images and classes.

    Raises:
        TagloomError: Saying what is wrong, where, and what to do.

    Examples:
        >>> import tagloom
        >>> change = tagloom.compare("runs/first", "runs/second", "val.csv")  # doctest: +SKIP
        >>> [label.name for label in change.gained(least=2.0)]  # doctest: +SKIP
        ['horse', 'cow']
    """
    from tagloom.evaluation.compare import compare_with_first

    several = isinstance(second, Sequence) and not isinstance(second, str)
    taggers = open_different([first, *cast("Sequence[AnyTagger]", second if several else [second])], device)
    table = open_table(data, data_options)
    engines = ", ".join(dict.fromkeys(tagger.engine for tagger in taggers))
    with progress_of(open_console() if show_progress else None, f"scoring ({engines})") as progress:
        comparisons = compare_with_first(
            taggers, table, ignore_other_labels=ignore_other_labels, resamples=resamples, progress=progress
        )
    return comparisons if several else comparisons[0]


def open_tagger(tagger: AnyTagger, device: str = "auto", words: str | None = None) -> "Tagger":
    """Give the tagger that somebody named, or handed over."""
    from tagloom.predict.tagger import Tagger, load

    if isinstance(tagger, Tagger):
        return tagger
    if isinstance(tagger, TrainedTagger):
        return tagger.tagger
    if not isinstance(tagger, str | os.PathLike):
        raise TagloomError(f"found {shown(tagger)}, but need a Tagger, a tagger folder, or hf-hub:owner/name.")
    return load(tagger, device=device, words=words)


def open_different(taggers: Sequence[AnyTagger], device: str = "auto") -> "list[Tagger]":
    """Give the taggers to compare, two or more; one tagger twice is refused before any is loaded."""
    if len(taggers) < 2:
        raise TagloomError("name at least two taggers to compare.")
    for (which, one), (other, two) in combinations(enumerate(taggers), 2):
        a, b = _folder(one), _folder(two)
        if one is two or (a and b and (a == b or (a.is_dir() and b.is_dir() and a.samefile(b)))):
            named = f" ({a} and {b})" if a and b else ""
            raise TagloomError(f"taggers {which + 1} and {other + 1} are the same tagger{named}: name different ones.")
    return [open_tagger(tagger, device) for tagger in taggers]


def open_table(data: AnyTable, options: Mapping[str, str] | None = None) -> "LabelTable":
    """Give the label table that somebody named, or handed over."""
    from tagloom.data import LabelTable, load_table

    if isinstance(data, LabelTable):
        return data
    if not isinstance(data, str | os.PathLike):
        raise TagloomError(f"found {shown(data)}, but need a LabelTable or the path of one.")
    return load_table(data, **(options or {}))


def choose_split(tagger: "Tagger", table: "LabelTable", given: str) -> "tuple[LabelSplit, list[str]]":
    """Split the labels to score into seen and unseen ones.

    Returns:
        The split, and what a reader of the metrics must know: labels that are left out, and unseen labels that the
        tagger was trained on after all.
    """
    from tagloom.evaluation.evaluate import trained_labels
    from tagloom.labels.split import read_split, split_to_score

    takes_words = tagger.spec.words is not None
    split = split_to_score(given, tagger.classes, table.classes) if takes_words else read_split(given, table.classes)
    notes = []
    if others := [printable(name) for name in table.classes if name not in {*split.seen, *split.unseen}]:
        notes.append(
            f"{len(others)} labels of the table are neither trained nor unseen, and left out: {listed(others)}"
        )
    trained = trained_labels(tagger)
    if known := [printable(name) for name in split.unseen if name in trained]:
        notes.append(f"{len(known)} of the unseen labels were trained, so ZSL is not zero-shot here: {listed(known)}")
    return split, notes


def _folder(tagger: AnyTagger) -> Path | None:
    """Give the folder that names a tagger; None for one that is loaded already."""
    if isinstance(tagger, TrainedTagger):
        return tagger.folder
    return Path(tagger) if isinstance(tagger, str | os.PathLike) else None
