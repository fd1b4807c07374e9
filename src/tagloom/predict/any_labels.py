"""Asking a tagger of words for labels: laying words out as it wants them, some thousand queries at a time.

The network takes pictures (B, H, W, 3) and words (K, g, d_w), with g words per query, and gives logits (B, K · g). All
that decides which word stands where happens here, in plain arrays, so that it is the same for torch and ONNX Runtime.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.cache_folder import default_cache_folder
from tagloom.errors import TaggerError, WordError
from tagloom.labels.groups import group_classes, lay_out
from tagloom.tagger.spec import WORDS_FILE, TaggerSpec, WordForm
from tagloom.words import encode_labels
from tagloom.words.sources import PACKAGES, is_vector_file
from tagloom.words.vector_files import LabelVectors, read_vectors

Run = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""From pictures (B, H, W, 3) to logits (B, N)."""
Ask = Callable[[NDArray[np.uint8], NDArray[np.float32]], NDArray[np.float32]]
"""From pictures (B, H, W, 3) and words (K, g, d_w) to logits (B, K · g)."""

SAME_VECTOR = 1e-3  # the most that two encodings of a label by the same source may differ
MAX_QUERIES = 4096  # at once
MAX_TOKENS = 16_384  # pictures x queries at once: with feed-forward layers of 2,048 values, 128 MB of float32


class Question(NamedTuple):
    """Words as a network takes them.

    Attributes:
        words: (K, g, d_w), zeros where no word stands.
        places: (n,) where each label's logit is found among the K · g.
    """

    words: NDArray[np.float32]
    places: NDArray[np.int64]


@dataclass(frozen=True)
class Asker:
    """A network of words, with what it takes to ask it for labels.

    Attributes:
        ask: The network.
        form: How it is asked.
        own: Its classes and their vectors.
        source: Where the user says that vectors of other labels come from; None for where the tagger says.
    """

    ask: Ask
    form: WordForm
    own: LabelVectors
    source: str | None = None

    def run_own(self) -> Run:
        """Make what gives the logits of the tagger's own classes."""
        return asking(self.ask, [own_question(self.own.vectors, self.form)])

    def run_others(self, labels: Sequence[str]) -> Run:
        """Make what gives the logits of any labels."""
        return asking(self.ask, other_questions(self.vectors_of(labels), self.form))

    def vectors_of(self, labels: Sequence[str]) -> NDArray[np.float32]:
        """Give vectors (n, d_w): the tagger's own for its classes, the source's for other labels."""
        known = dict(zip(*self.own, strict=True))
        others = [label for label in dict.fromkeys(labels) if label not in known]
        if others:
            # One class is encoded along, to see that it is still the source that the tagger was trained with.
            witness, source = self.own.labels[0], self.source or believed_source(self.form.source)
            vectors = encode_labels([witness, *others], source, cache_folder=default_cache_folder())
            if vectors[0].shape != known[witness].shape or np.abs(vectors[0] - known[witness]).max() > SAME_VECTOR:
                raise TaggerError(
                    f"{source}: gives {witness!r} another vector than the tagger was trained with, so it is another "
                    "source. Name the one that it was trained with (--words)."
                )
            known |= dict(zip(others, vectors[1:], strict=True))
        return np.stack([known[label] for label in labels])


def read_asker(folder: Path, spec: TaggerSpec, ask: Ask, source: str | None = None) -> Asker | None:
    """Read what a tagger folder holds of words; None for a tagger that knows its classes only.

    Args:
        folder: The tagger folder.
        spec: What its `tagger.json` says.
        ask: Its network.
        source: Where vectors of other labels come from, if not from where the folder says.
    """
    if spec.words is None:
        return None
    own = read_vectors(folder / WORDS_FILE)
    if own.labels != spec.classes:
        raise TaggerError(
            f"{folder / WORDS_FILE}: its labels are not those of tagger.json. Take both from one training."
        )
    return Asker(ask, spec.words, own, source)


def believed_source(named: str) -> str:
    """Give the source that a tagger folder names, if it is one of ours or a file that is read as numbers.

    A folder may be a stranger's, and is not to choose which model is fetched and run; only the user does that.
    """
    if named in PACKAGES:
        return named
    if not is_vector_file(named):
        raise TaggerError(
            f"the tagger's words come from the model {named!r}, and a tagger does not choose what is loaded. If you "
            f"trust that model, name it yourself: --words {named} (in Python: words={named!r})."
        )
    if not Path(named).is_file():
        raise WordError(
            f"{named}: no such file, and the tagger's words come from it. If it has moved, name it with --words FILE "
            "(in Python: words=FILE)."
        )
    return named


def own_question(vectors: NDArray[np.float32], form: WordForm) -> Question:
    """Lay out the vectors (N, d_w) of a tagger's own classes as they were trained."""
    places = np.asarray(form.places, np.int64)
    queries = form.fixed_queries or int(places.max()) // form.group_size + 1
    return Question(_laid_out(vectors, places, queries, form.group_size), places)


def other_questions(vectors: NDArray[np.float32], form: WordForm) -> list[Question]:
    """Lay out the vectors (n, d_w) of any labels, in chunks; the labels of one chunk follow those of the one before.

    Where several labels share a query they are parted among queries in the way that the classes were.
    """
    most = (form.fixed_queries or MAX_QUERIES) * form.group_size
    questions = []
    for first in range(0, len(vectors), most):
        chunk = vectors[first : first + most]
        groups = -(-len(chunk) // form.group_size)
        parts = group_classes(len(chunk), groups, form.grouping, form.grouping_seed)
        _, places = lay_out(parts, form.group_size)
        words = _laid_out(chunk, places, form.fixed_queries or groups, form.group_size)
        questions.append(Question(words, places))
    return questions


def asking(ask: Ask, questions: Sequence[Question]) -> Run:
    """Make what runs pictures alone from what runs pictures and words."""

    def run(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        columns = []
        for words, places in questions:
            few = max(1, MAX_TOKENS // len(words))
            rows = [ask(pictures[first : first + few], words) for first in range(0, len(pictures), few)]
            columns.append(np.concatenate(rows)[:, places])
        return np.concatenate(columns, axis=1)

    return run


def _laid_out(
    vectors: NDArray[np.float32], places: NDArray[np.int64], queries: int, group_size: int
) -> NDArray[np.float32]:
    rows = np.zeros((queries * group_size, vectors.shape[1]), np.float32)
    rows[places] = vectors
    return rows.reshape(queries, group_size, vectors.shape[1])
