"""Scoring any labels with a tagger that has word queries.

The network takes pictures (B, H, W, 3) and words (K, g, d_w), with g words per query, and gives logits (B, K · g).
Which word goes to which query is decided here, in plain arrays, so it is the same for torch and ONNX Runtime. Many
labels are scored some thousand queries at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.cache_folder import default_cache_folder
from tagloom.errors import MissingExtraError, TaggerError, WordError
from tagloom.files import is_file
from tagloom.labels.groups import group_classes, lay_out
from tagloom.predict.engine import PictureNetwork, WordNetwork
from tagloom.tagger.spec import VOCABULARY_FILE, WORDS_FILE, TaggerSpec, WordForm
from tagloom.wording import listed
from tagloom.words import encode_labels
from tagloom.words.sources import PACKAGES, is_vector_file
from tagloom.words.spelling import folded, forms_of, with_nearest
from tagloom.words.vector_files import LabelVectors, read_vectors

SAME_VECTOR = 1e-3  # the most by which two encodings of a label by the same source may differ
MAX_QUERIES = 4096  # at once
MAX_WORD_VALUES = 2**27  # 512 MiB of float32 for the words of all queries
MAX_TOKENS = 16_384  # pictures x queries at once: with feed-forward layers of 2,048 values, 128 MB of float32


class WordQueries(NamedTuple):
    """Labels laid out as the queries of a network.

    Attributes:
        words: (K, g, d_w) vectors, zeros where a query has no label.
        columns: (n,) the logit of each label among the K · g.
    """

    words: NDArray[np.float32]
    columns: NDArray[np.int64]


@dataclass(frozen=True)
class LabelScorer:
    """A network with word queries, and what it needs to score labels.

    Attributes:
        network: The network.
        form: How it takes labels.
        own: Its classes and their vectors.
        source: Where the vectors of other labels come from, if the user names it; None for the tagger's own source.
        vocabulary: The file with the vectors of many other words, if the tagger has one.
    """

    network: WordNetwork
    form: WordForm
    own: LabelVectors
    source: str | None = None
    vocabulary: Path | None = None

    def for_own_classes(self) -> PictureNetwork:
        """Give a network that scores the tagger's own classes."""
        return with_queries(self.network, self.queries())

    def for_labels(self, labels: Sequence[str]) -> PictureNetwork:
        """Give a network that scores any labels."""
        return with_queries(self.network, self.queries(labels))

    def queries(self, labels: Sequence[str] | None = None) -> list[WordQueries]:
        """Lay out the words of any labels, or of the tagger's own classes, as the queries of its network."""
        if labels is None:
            return [own_queries(self.own.vectors, self.form)]
        return queries_for(self.vectors_of(labels), self.form)

    def vectors_of(self, labels: Sequence[str]) -> NDArray[np.float32]:
        """Give vectors (n, d_w): the tagger's own for its classes, else its vocabulary's, else the source's."""
        known = dict(zip(*self.own, strict=True))
        others = [label for label in dict.fromkeys(labels) if label not in known]
        if others and self.source is None:
            known |= self._from_vocabulary(others)
            others = [label for label in others if label not in known]
        if others:
            known |= self._encoded(others)
        return np.stack([known[label] for label in labels])

    def _from_vocabulary(self, labels: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Give the vectors of those labels that the tagger's vocabulary has, in any case."""
        if self.vocabulary is None:
            return {}
        words, vectors = read_vectors(self.vocabulary)
        if vectors.shape[1] != self.own.vectors.shape[1]:
            raise TaggerError(
                f"{self.vocabulary}: its vectors have {vectors.shape[1]} values, and those of the classes "
                f"{self.own.vectors.shape[1]}. Take both from one export."
            )
        row_of = {folded(word): row for row, word in enumerate(words)}
        found = {label: next((row_of[form] for form in forms_of(label) if form in row_of), None) for label in labels}
        return {label: vectors[row] for label, row in found.items() if row is not None}

    def _encoded(self, labels: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Give the vectors that the source has for labels."""
        # Encode one class as well, to check that this is still the source the tagger was trained with.
        witness, source = self.own.labels[0], self.source or trusted_source(self.form.source)
        try:
            vectors = encode_labels([witness, *labels], source, cache_folder=default_cache_folder())
        except MissingExtraError as error:
            if self.vocabulary is None:
                raise
            near = with_nearest(labels, read_vectors(self.vocabulary).labels)
            raise WordError(
                f"{listed(near.values())}: not among the words that come with this tagger. Leave them out, or encode "
                f"them: {error}"
            ) from error
        own = self.own.vectors[0]
        if vectors[0].shape != own.shape or np.abs(vectors[0] - own).max() > SAME_VECTOR:
            raise TaggerError(
                f"{source}: gives {witness!r} another vector than the tagger was trained with, so it is another "
                "source. Name the one that it was trained with (--words)."
            )
        return dict(zip(labels, vectors[1:], strict=True))


def trained_names(labels: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Give labels as the classes among them are spelt, whatever their case and with underscores or spaces.

    >>> trained_names(["Dining_Table", "wedding"], ["dining table"])
    ['dining table', 'wedding']
    """
    known, spelt = set(classes), {folded(name): name for name in reversed(classes)}
    return [label if label in known else spelt.get(folded(label), label) for label in labels]


def read_label_scorer(
    folder: Path, spec: TaggerSpec, network: WordNetwork, source: str | None = None
) -> LabelScorer | None:
    """Read the word vectors of a tagger folder; None for a tagger without word queries.

    Args:
        folder: The tagger folder.
        spec: What its `tagger.json` says.
        network: Its network.
        source: Where the vectors of other labels come from, if not from the source that the folder names.
    """
    if spec.words is None:
        return None
    own = read_vectors(folder / WORDS_FILE)
    if own.labels != spec.classes:
        raise TaggerError(
            f"{folder / WORDS_FILE}: its labels are not those of tagger.json. Take both from one training."
        )
    vocabulary = folder / VOCABULARY_FILE
    return LabelScorer(network, spec.words, own, source, vocabulary if is_file(vocabulary) else None)


def trusted_source(named: str) -> str:
    """Give the source that a tagger folder names, if it is one of ours or a file that is read as numbers.

    The folder may come from a stranger, so it must not choose which model is fetched and run. Only the user does.
    """
    if named in PACKAGES:
        return named
    if not is_vector_file(named):
        raise TaggerError(
            f"the tagger's words come from the model {named!r}, and a tagger does not choose what is loaded. If you "
            f"trust that model, name it yourself: --words {named} (in Python: words={named!r})."
        )
    if not is_file(Path(named)):
        raise WordError(
            f"{named}: no such file, and the tagger's words come from it. If it has moved, name it with --words FILE "
            "(in Python: words=FILE)."
        )
    return named


def own_queries(vectors: NDArray[np.float32], form: WordForm) -> WordQueries:
    """Lay out the vectors (N, d_w) of a tagger's own classes as they were trained."""
    columns = np.asarray(form.places, np.int64)
    queries = form.fixed_queries or int(columns.max()) // form.group_size + 1
    return WordQueries(_laid_out(vectors, columns, queries, form.group_size), columns)


def queries_for(vectors: NDArray[np.float32], form: WordForm) -> list[WordQueries]:
    """Lay out the vectors (n, d_w) of any labels in chunks, one after the other.

    Where several labels share a query, they are grouped in the same way as the classes were.
    """
    most = (form.fixed_queries or MAX_QUERIES) * form.group_size
    chunks = []
    for first in range(0, len(vectors), most):
        chunk = vectors[first : first + most]
        count = -(-len(chunk) // form.group_size)
        groups = group_classes(len(chunk), count, form.grouping, form.grouping_seed)
        _, columns = lay_out(groups, form.group_size)
        words = _laid_out(chunk, columns, form.fixed_queries or count, form.group_size)
        chunks.append(WordQueries(words, columns))
    return chunks


def with_queries(network: WordNetwork, chunks: Sequence[WordQueries]) -> PictureNetwork:
    """Make a network of pictures alone from one of pictures and words."""

    def run(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        logits = []
        for words, columns in chunks:
            few = max(1, MAX_TOKENS // len(words))
            rows = [network(pictures[first : first + few], words) for first in range(0, len(pictures), few)]
            logits.append(np.concatenate(rows)[:, columns])
        return np.concatenate(logits, axis=1)

    return run


def _laid_out(
    vectors: NDArray[np.float32], columns: NDArray[np.int64], queries: int, group_size: int
) -> NDArray[np.float32]:
    if queries * group_size * vectors.shape[1] > MAX_WORD_VALUES:
        raise TaggerError(
            f"words: {queries} queries of {group_size} words of {vectors.shape[1]} values each are more than Tagloom "
            f"keeps in memory ({MAX_WORD_VALUES} values). No training writes such a tagger."
        )
    words = np.zeros((queries * group_size, vectors.shape[1]), np.float32)
    words[columns] = vectors
    return words.reshape(queries, group_size, vectors.shape[1])
