"""A review: photos, what is suggested about them, what somebody answered, and which comes next.

All that is known, learned and ordered here follows from the table, the tagger's scores and the file of answers. Nothing
else is kept, so a review that was killed goes on where it was, and what it had learned is learned again.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data.packed.images import ImageFile
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.progress import Progress, no_progress
from tagloom.review.answers import MAX_LABEL, Answer, Answers
from tagloom.review.learning import Pooled, first_logits, learn
from tagloom.review.order import compact, most_useful_first
from tagloom.review.photos import Knowledge, what_is_known

ANSWERS_FILE = "answers.jsonl"
FEWEST = 5
"""Answers before anything can be learned."""
MOST_LABELLED = 3000
"""Images that nobody answered, but that have labels, of which is learned; more would take longer than seconds."""
LIKELY = 12
"""Labels that are shown of a photo, if fewer are suggested."""

GetFeatures = Callable[[Sequence[ImageFile], Progress], Pooled]


class Learned(NamedTuple):
    """What a retraining did."""

    answers: int
    changed: int
    seconds: float


@dataclass(frozen=True)
class Shown:
    """A label of a photo as the page shows it.

    Attributes:
        label: Its name.
        score: How likely it is; None if nobody can say yet.
        on: Whether it is put on the photo unless somebody says otherwise.
        was: Whether the table has it, or an earlier answer; None if that is unknown.
    """

    label: str
    score: float | None
    on: bool
    was: bool | None


class Session:
    """A review of the photos of a table.

    Args:
        folder: Where the answers are.
        table: The photos, and their labels as far as they have any.
        scores: (images, classes) the tagger's, NaN for labels that it does not know.
        limits: (classes,) the scores above which labels are suggested.
        get_features: Gives the features of images, for `retrain`.
        first: Rows to ask about before all others, for example those with doubtful labels, the most doubtful first.
    """

    def __init__(
        self,
        folder: Path,
        table: LabelTable,
        scores: NDArray[np.float32],
        limits: NDArray[np.float32],
        get_features: GetFeatures,
        first: Sequence[int] = (),
    ) -> None:
        self.folder, self.table = folder, table
        self.answers = Answers(folder / ANSWERS_FILE)
        self._row_of = {name: row for row, name in enumerate(table.images)}
        if self.answers.given and not any(name in self._row_of for name in self.answers.given):
            raise DataError(
                f"{folder}: the answers there are about other photos than {table.source}. Name another --out."
            )
        self._tagger_scores, self._limits = scores, limits
        self._get_features = get_features
        self._first = tuple(first)
        self._features: Pooled | None = None
        self._points: NDArray[np.float32] | None = None
        self._later: list[int] = []
        self._lock = threading.RLock()
        self.scores = self._with_new_labels(scores)
        self._order: list[int] = []
        self.arrange()

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of the table, then those that were added in the review."""
        known = set(self.table.classes)
        return (*self.table.classes, *(name for name in self.answers.labels if name not in known))

    @property
    def answered(self) -> int:
        """How many photos somebody answered about."""
        return len(self.answers.given)

    @property
    def has_learned(self) -> bool:
        """Whether this review, now or before a restart, has learned from answers, and still could."""
        return self.answers.learned and self.answered >= FEWEST

    def known(self) -> Knowledge:
        """Give what is known: the table's labels, and over them the answers."""
        return what_is_known(self.table, self.classes, self.answers, self._row_of)

    def waiting(self, count: int) -> list[int]:
        """Give the next rows to ask about."""
        with self._lock:
            later = set(self._later)
            found = [row for row in self._order if row not in later and self.answer_of(row) is None]
            found += [row for row in self._later if self.answer_of(row) is None]
            return found[:count]

    def answer_of(self, row: int) -> Answer | None:
        """Give the answer about a row, if there is one."""
        return self.answers.given.get(self.table.images[row])

    def labels_of(self, row: int) -> list[Shown]:
        """Choose the labels to show of a photo: those suggested, those likely, and those added in this review."""
        scores, answer = self.scores[row], self.answer_of(row)
        known = what_is_known(self.table.select([row]), self.classes, self.answers, {self.table.images[row]: 0})
        targets, is_known = known.targets[0], known.known[0]
        suggested = np.nan_to_num(scores) > self._all_limits()
        on = np.where(is_known, targets, suggested if answer is None else False)
        rank = np.lexsort((-np.nan_to_num(scores, nan=-1.0), ~on))
        added = set(self.answers.labels)
        shown = [
            column
            for place, column in enumerate(rank.tolist())
            if on[column] or (place < LIKELY and not np.isnan(scores[column])) or self.classes[column] in added
        ]
        return [
            Shown(
                self.classes[column],
                None if np.isnan(scores[column]) else float(scores[column]),
                bool(on[column]),
                bool(targets[column]) if is_known[column] else None,
            )
            for column in shown
        ]

    def answer(self, row: int, yes: Sequence[str], unsure: Sequence[str] = ()) -> None:
        """Note which labels apply to a photo; all others do not, but for those that somebody is unsure of."""
        with self._lock:
            if foreign := [name for name in (*yes, *unsure) if name not in self.classes]:
                raise DataError(f"{foreign[0][:80]!r} is not a label of this review. Add it first.")
            self.answers.answer(self.table.images[row], yes, unsure)

    def undo(self) -> int | None:
        """Take back the last answer, and give its row, which then comes first again."""
        with self._lock:
            image = self.answers.undo()
            if image is None or image not in self._row_of:
                return None
            row = self._row_of[image]
            self._later = [other for other in self._later if other != row]
            self._order = [row, *(other for other in self._order if other != row)]
            return row

    def skip(self, row: int) -> None:
        """Ask about a photo later."""
        with self._lock:
            self._later = [*(other for other in self._later if other != row), row]

    def add_label(self, label: str) -> str:
        """Add a label of somebody's own, and give it as it is written from now on."""
        with self._lock:
            label = " ".join(label.split())
            if not 0 < len(label) <= MAX_LABEL or not label.isprintable():
                raise DataError(f"a label must have 1 to {MAX_LABEL} characters that can be printed.")
            same = next((name for name in self.classes if name.casefold() == label.casefold()), None)
            if same is not None:
                return same
            self.answers.add_label(label)
            self.scores = self._with_new_labels(self.scores)
            return label

    def retrain(self, progress: Progress = no_progress) -> Learned:
        """Learn from all answers and from the table's labels. Suggestions and the order of the photos then follow.

        Raises:
            MissingExtraError: If torch is not installed.
            DataError: If there are too few answers.
        """
        begun = time.monotonic()
        if self.answered < FEWEST:
            raise DataError(f"there is too little to learn from: {self.answered} of the first {FEWEST} answers.")
        if self._features is None:
            images = [self.table.image(row) for row in range(len(self.table))]
            self._features = self._get_features(images, progress)
            reduced = compact(self._features.features)
            self._points = np.zeros((len(images), reduced.shape[1]), np.float32)
            self._points[self._features.rows] = reduced
        rows, features = self._features
        with self._lock:  # answers that come while it learns count the next time
            known, classes, answered = self.known(), self.classes, self.answered
        logits = first_logits(self._with_new_labels(self._tagger_scores, len(classes)))[rows]
        learn_from = self._to_learn_from(known, rows)
        found = learn(
            features[learn_from],
            logits[learn_from],
            known.targets[rows][learn_from],
            known.known[rows][learn_from],
        )
        with self._lock:
            new = np.full((len(self.table), len(classes)), np.nan, np.float32)
            new[rows] = found.scores(features, logits)
            before = np.nan_to_num(self.scores) > self._all_limits()
            self.scores = self._with_new_labels(new)
            self.answers.note_learned(answered)
            after = np.nan_to_num(self.scores) > self._all_limits()
            self.arrange()
        return Learned(answered, int((before != after).any(1).sum()), time.monotonic() - begun)

    def arrange(self) -> None:
        """Put the photos that nobody answered about into the order in which their answers are most useful."""
        with self._lock:
            known = self.known()
            free = np.array([row for row in range(len(self.table)) if self.answer_of(row) is None], np.int64)
            order = most_useful_first(self.scores, known.targets, known.known, free, self._points, self.answered)
            waiting = set(order)
            first = [row for row in self._first if row in waiting]
            ahead = set(first)
            self._order, self._later = [*first, *(row for row in order if row not in ahead)], []

    def _to_learn_from(self, known: Knowledge, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Choose the places in `rows` to learn from: all with an answer, and some of those with labels."""
        answered = np.array([self.answer_of(row) is not None for row in rows.tolist()], np.bool_)
        labelled = np.flatnonzero(~answered & known.known[rows].any(1))
        some = np.random.default_rng(0).permutation(labelled)[:MOST_LABELLED]
        return np.sort(np.concatenate([np.flatnonzero(answered), some]))

    def _with_new_labels(self, scores: NDArray[np.float32], classes: int | None = None) -> NDArray[np.float32]:
        missing = (len(self.classes) if classes is None else classes) - scores.shape[1]
        return np.hstack([scores, np.full((len(scores), missing), np.nan, np.float32)]) if missing else scores

    def _all_limits(self) -> NDArray[np.float32]:
        return np.concatenate([self._limits, np.full(len(self.classes) - len(self._limits), 0.5, np.float32)])


def summary(session: Session) -> dict[str, Any]:
    """Say how far a review is."""
    return {
        "source": session.table.source,
        "photos": len(session.table),
        "answered": session.answered,
        "classes": list(session.classes),
        "folder": str(session.folder),
    }
