"""A tagger: pictures in, labels out."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.data.reading import Source, read_pictures
from tagloom.errors import ImageError, MissingExtraError, TaggerError
from tagloom.hub import HUB_PREFIX, split_hub_name
from tagloom.predict.any_labels import LabelScorer, read_label_scorer
from tagloom.predict.engine import PictureNetwork, open_engine
from tagloom.ready import ready_folder
from tagloom.scoring.calibration import to_scores
from tagloom.tagger.spec import TaggerSpec, read_spec
from tagloom.wording import first_line, shown


class Tag(NamedTuple):
    """A label and how sure the tagger is of it, from 0 to 1."""

    label: str
    score: float


class Tagger:
    """Puts labels on pictures.

    Attributes:
        name: Its folder, or its name on the hub, for messages.
        spec: What its folder says about it.
        classes: Label names, in the order of `scores`.
        engine: "onnx" or "torch".
    """

    def __init__(
        self,
        spec: TaggerSpec,
        network: PictureNetwork,
        engine: str,
        label_scorer: LabelScorer | None = None,
        *,
        name: str = "",
    ) -> None:
        self.name = name
        self.spec = spec
        self.classes = spec.classes
        self.engine = engine
        self._network = network
        self._label_scorer = label_scorer
        self._last: Tagger | None = None
        self._trained: Tagger = self  # the tagger of the trained labels, which have thresholds of their own

    def predict(
        self,
        pictures: Source | Iterable[Source],
        threshold: float | Sequence[float] | None = None,
        top_k: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> list[list[Tag]]:
        """Put labels on pictures.

        Args:
            pictures: One or many paths, encoded images (bytes), PIL images or uint8 arrays (H, W, 3).
            threshold: The score above which a label becomes a tag, one for all or one per class. By default those
                chosen in training; a single-label tagger gives its best class.
            top_k: The most labels per picture. Without a threshold, exactly this many.
            labels: Labels to choose from instead of the tagger's classes; see `with_labels`.

        Returns:
            The tags of each picture, best first.
        """
        tagger = self if labels is None else self.with_labels(labels)
        return [tagger.tags(row, threshold, top_k) for row in tagger.scores(pictures)]

    def scores(self, pictures: Source | Iterable[Source], labels: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Score every class, or every one of `labels` (see `with_labels`): (pictures, classes) from 0 to 1.

        An unreadable picture raises an `ImageError`.
        """
        if labels is not None:
            return self.with_labels(labels).scores(pictures)
        rows = []
        for _, result in self.stream([pictures] if _is_one(pictures) else pictures):  # type: ignore[list-item, arg-type]
            if isinstance(result, ImageError):
                raise result
            rows.append(result)
        return np.stack(rows) if rows else np.zeros((0, len(self.classes)), np.float32)

    def with_labels(self, labels: Sequence[str]) -> "Tagger":
        """Give a tagger for other labels, trained or not, in any number and order. It takes word queries to do this.

        A trained label keeps its threshold and calibration. Others get the median threshold and the calibration that
        all labels share. A label given twice counts once.
        """
        if isinstance(labels, str):
            raise TaggerError(f"labels must be a list of names, found the text {shown(labels)}.")
        names = tuple(dict.fromkeys(labels))
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise TaggerError("the list of labels is empty, or one of its labels is. Name at least one label.")
        if self._trained is not self:
            return self._trained.with_labels(names)
        if self._last is not None and self._last.classes == names:
            return self._last
        if self._label_scorer is None:
            raise TaggerError(
                f"this tagger (head '{self.spec.head}') knows its {len(self.classes)} labels only. A tagger with word "
                "queries scores any label: tagloom train … --recipe quick-words"
            )
        limits = dict(zip(self.classes, self.spec.threshold_row().tolist(), strict=True))
        usual = float(np.median(list(limits.values())))
        thresholds = tuple(limits.get(name, usual) for name in names)
        calibration = self.spec.calibration and self.spec.calibration.of_labels(self.classes, names)
        spec = replace(self.spec, classes=names, thresholds=thresholds, calibration=calibration, words=None)
        self._last = Tagger(spec, self._label_scorer.for_labels(names), self.engine, self._label_scorer, name=self.name)
        self._last._trained = self
        return self._last

    def stream(
        self, pictures: Iterable[Source], batch_size: int = 32
    ) -> Iterator[tuple[int, NDArray[np.float32] | ImageError]]:
        """Give the index of each picture with its scores (N,), or with its error if it cannot be read.

        Raises:
            TaggerError: If the network gives a number that is not finite; it names the picture and the tagger.
        """
        for index, result in self.stream_logits(pictures, batch_size):
            yield index, result if isinstance(result, ImageError) else self.to_scores(result[None])[0]

    def stream_logits(
        self, pictures: Iterable[Source], batch_size: int = 32
    ) -> Iterator[tuple[int, NDArray[np.float32] | ImageError]]:
        """Do as `stream`, but give the network's logits (N,), not calibrated and not between 0 and 1."""
        names: dict[int, str] = {}  # of the pictures being read

        def named() -> Iterator[Source]:
            for index, picture in enumerate(pictures):
                names[index] = _name_of(picture, index)
                yield picture

        for batch in read_pictures(named(), self.spec.preprocess, batch_size=batch_size, threads=usable_cores()):
            results: dict[int, NDArray[np.float32] | ImageError] = dict(batch.errors)
            if batch.indices:
                logits = self._logits(batch.pixels)
                for row, index in zip(logits, batch.indices, strict=True):
                    self._check_finite(row, names[index])
                results.update(zip(batch.indices, logits, strict=True))
            for index, result in sorted(results.items(), key=lambda item: item[0]):
                names.pop(index)
                yield index, result

    def tags(
        self, row: NDArray[np.float32], threshold: float | Sequence[float] | None = None, top_k: int | None = None
    ) -> list[Tag]:
        """Turn one picture's scores (N,) into tags, best first."""
        if top_k is not None and top_k < 1:
            raise TaggerError(f"top_k is {top_k}; ask for at least one label, or leave it out.")
        order = np.argsort(-row, kind="stable")
        if threshold is not None:
            order = order[row[order] > self._limits(threshold)[order]]
        elif top_k is None and self.spec.task == "single":
            order = order[:1]
        elif top_k is None:
            order = order[row[order] > self.spec.threshold_row()[order]]
        return [Tag(self.classes[column], float(row[column])) for column in order[:top_k]]

    def _limits(self, threshold: float | Sequence[float]) -> NDArray[np.float32]:
        # In float32 like the scores, so that a score read back from a file is not above itself.
        given = np.asarray(threshold, np.float32)
        if given.shape not in ((), (len(self.classes),)):
            raise TaggerError(
                f"{given.size} thresholds were given for {len(self.classes)} classes: give one, or one for each."
            )
        return np.broadcast_to(given, len(self.classes))

    def to_scores(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Turn logits (n, N) into scores, calibrated where the tagger is."""
        return to_scores(logits, self.spec.activation, self.spec.calibration)

    def _logits(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        logits = self._network(pixels)
        if logits.ndim != 2 or logits.shape[1] != len(self.classes):
            raise TaggerError(
                f"the network gives {logits.shape[1:]} scores per picture, but tagger.json names {len(self.classes)} "
                "classes. Take both files from the same training."
            )
        return logits

    def _check_finite(self, row: NDArray[np.float32], picture: str) -> None:
        """Refuse logits (N,) from which no score can be made: NaN is above no threshold, and is not JSON."""
        finite = np.isfinite(row)
        if not finite.all():
            column = int(np.argmin(finite))
            raise TaggerError(
                f"{picture}: the tagger {self.name or '(without a name)'} gives {row[column]} for "
                f"{shown(self.classes[column])} ({len(row) - int(finite.sum())} of {len(row)} labels are not finite). "
                "Its network is damaged, or overflows on this image. Train or export it again, or leave the image out."
            )


def load(folder: str | os.PathLike[str] | None = None, *, device: str = "auto", words: str | None = None) -> Tagger:
    """Load a tagger.

    Args:
        folder: A tagger folder, or "hf-hub:owner/name" or "hf-hub:owner/name@revision" for one on the Hugging Face hub;
            None for the ready tagger that comes with Tagloom.
        device: "auto" runs an exported tagger in ONNX Runtime unless there is a GPU; "cpu", "cuda", … run it in torch
            where that is needed.
        words: Where the vectors of labels that were not trained come from, for a tagger with word queries. Name it if
            the tagger's own source has moved, or if it is a model (a folder, or owner/name): a tagger does not choose
            which model is loaded. `tagloom.words` lists the kinds of sources.
    """
    found = find_folder(folder)
    spec = read_spec(found)
    engine = open_engine(found, spec, device)
    scorer = read_label_scorer(found, spec, engine.run, words)
    network = scorer.for_own_classes() if scorer else engine.run
    return Tagger(spec, network, engine.name, scorer, name=str(found if folder is None else folder))


def find_folder(name: str | os.PathLike[str] | None = None) -> Path:
    """Give the tagger folder for a name; one on the hub, "hf-hub:owner/name@revision", is fetched first."""
    if name is None:
        return ready_folder()
    return _from_hub(str(name)) if str(name).startswith(HUB_PREFIX) else Path(name)


def _from_hub(name: str) -> Path:
    if find_spec("huggingface_hub") is None:
        raise MissingExtraError("fetching a tagger from the hub", "train")
    from huggingface_hub import snapshot_download

    repository, revision = split_hub_name(name)
    try:
        wanted = ["*.json", "*.safetensors", "*.onnx"]
        return Path(snapshot_download(repository, revision=revision, allow_patterns=wanted))
    except Exception as error:
        raise TaggerError(
            f"{name}: could not be fetched from the hub ({type(error).__name__}: {first_line(error)})."
        ) from error


def _name_of(picture: Source, index: int) -> str:
    """Name a picture in a message: its path, or its number."""
    if isinstance(picture, str | os.PathLike):
        return os.fspath(picture)
    return str(getattr(picture, "filename", "")) or f"picture {index + 1}"


def _is_one(pictures: object) -> bool:
    is_pixels = isinstance(pictures, np.ndarray) and pictures.ndim == 3
    return is_pixels or isinstance(pictures, str | bytes | os.PathLike) or hasattr(pictures, "convert")
