"""The labels of a package with word queries: those that it tags with, and the vocabulary that it brings along."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tagloom.cache_folder import default_cache_folder
from tagloom.data.parsing.lines import text_lines
from tagloom.errors import DataError, TaggerError
from tagloom.files import is_file
from tagloom.predict.any_labels import trusted_source
from tagloom.predict.tagger import load
from tagloom.tagger.spec import TaggerSpec, WordForm
from tagloom.words import encode_labels
from tagloom.words.vector_files import LabelVectors


def read_vocabulary(path: Path) -> dict[str, str]:
    """Read a vocabulary, a word in each line; give each with the text that is encoded for it.

    That text is the word itself, or what follows "=": "rucksack = rucksack, backpack".
    """
    if not is_file(path):
        raise DataError(f"{path}: no such file. Give a text file with one word per line.")
    texts: dict[str, str] = {}
    for number, line in text_lines(path):
        word, _, text = line.partition("=")
        if text and not word.strip():
            raise DataError(f"{path}, line {number}: there is no word before the '='.")
        if word.strip():
            texts.setdefault(word.strip(), text.strip() or word.strip())
    if not texts:
        raise DataError(f"{path}: no words. Expected one per line.")
    return texts


def vocabulary_vectors(run: Path, spec: TaggerSpec, texts: Mapping[str, str]) -> LabelVectors:
    """Encode a vocabulary with the source that the tagger was trained with."""
    source = trusted_source(_word_form(run, spec).source)
    vectors = encode_labels(list(texts.values()), source, cache_folder=default_cache_folder())
    return LabelVectors(tuple(texts), vectors)


def with_labels(run: Path, spec: TaggerSpec, labels: Sequence[str]) -> tuple[TaggerSpec, LabelVectors]:
    """Give the description of a tagger that tags with other labels, and their vectors.

    Args:
        run: A tagger folder with a query for each word.
        spec: What its `tagger.json` says.
        labels: Any labels; of those that it was trained on, thresholds, calibration and average precision are kept.
    """
    form = _word_form(run, spec)
    if form.group_size > 1 or form.fixed_queries is not None:
        raise TaggerError(f"{run}: its labels share queries (head '{spec.head}'), so their list cannot be changed.")
    tagger = load(run, device="cpu").with_labels(labels)
    names = tagger.classes
    changed = replace(
        tagger.spec,
        words=replace(form, places=tuple(range(len(names)))),
        metrics=_metrics_of(spec, names),
        data=spec.data | {"labels_of_the_run": len(spec.classes)},
    )
    return changed, LabelVectors(names, tagger.label_vectors())


def _word_form(run: Path, spec: TaggerSpec) -> WordForm:
    if spec.words is None:
        raise TaggerError(
            f"{run}: has no word queries (head '{spec.head}'), so neither its labels can be changed nor a vocabulary "
            "added. A tagger of words: tagloom train … --recipe quick-words"
        )
    return spec.words


def _metrics_of(spec: TaggerSpec, names: Sequence[str]) -> dict[str, Any]:
    """Keep what can be told of some of the classes: average precision and its mean. Of other labels nothing can."""
    kept: dict[str, Any] = {}
    if not set(names) <= set(spec.classes):
        return kept
    for part, figures in spec.metrics.items():
        measured = figures.get("AP") if isinstance(figures, dict) else None
        if not isinstance(measured, list) or len(measured) != len(spec.classes):
            continue
        precision_of = dict(zip(spec.classes, measured, strict=True))
        values = [precision_of[name] for name in names]
        numbers = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
        if numbers:
            kept[part] = {"mAP": sum(numbers) / len(numbers), "AP": values, "images": figures.get("images")}
    return kept
