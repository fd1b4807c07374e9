"""A tagger: pictures in, labels out."""

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.data.packed.images import PackedImage
from tagloom.data.reading import Encoded, Source, Stop, compute_on_pictures, pictures_at_once, read_pictures
from tagloom.data.transforms import seen_box
from tagloom.errors import ImageError, MissingExtraError, TaggerError
from tagloom.hub import HUB_PREFIX, split_hub_name
from tagloom.predict.any_labels import LabelScorer, WordQueries, read_label_scorer, trained_names
from tagloom.predict.engine import PictureNetwork, open_engine
from tagloom.predict.explanation import Explanation, normalised, open_to_show
from tagloom.predict.heat_maps import check_method, raw_maps
from tagloom.predict.insides import Insides
from tagloom.predict.predictions import Predictions, remember
from tagloom.ready import ANY_WORD, any_word_folder, comes_with_tagloom, ready_folder
from tagloom.scoring.calibration import to_scores
from tagloom.scoring.promise import HeldOutCounts
from tagloom.scoring.tags import Tag, TagRule, tag_rule
from tagloom.tagger.spec import TaggerSpec, read_spec
from tagloom.wording import first_line, listed, shown

__all__ = ["Tag", "Tagger", "find_folder", "load"]


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
        insides: Insides | None = None,
        stop: Stop = lambda threads: None,
    ) -> None:
        self.name = name
        self._insides = insides
        self.spec = spec
        self.classes = spec.classes
        self.engine = engine
        self._network = network
        self._label_scorer = label_scorer
        self._stop = stop
        self._last: Tagger | None = None
        self._trained: Tagger = self  # the tagger of the trained labels, which have thresholds of their own

    def predict(
        self,
        pictures: Source | Iterable[Source],
        threshold: float | Sequence[float] | None = None,
        top_k: int | None = None,
        labels: Sequence[str] | None = None,
        max_tags: int | None = None,
        precision: float | None = None,
        recall: float | None = None,
    ) -> Predictions:
        """Put labels on pictures.

        Args:
            pictures: One or many paths, encoded images (bytes), PIL images or uint8 arrays (H, W, 3).
            threshold: The score above which a label becomes a tag, one for all or one per class. By default those
                chosen in training; a single-label tagger gives its best class.
            top_k: The most labels per picture. Without a threshold, exactly this many.
            labels: Labels to choose from instead of the tagger's classes; see `with_labels`.
            max_tags: The most labels per picture, all of them above their thresholds.
            precision: Promise this precision of each label, with 95 % confidence, and leave out the labels of which
                it cannot be promised: `rule(precision=0.9).left_out` names them.
            recall: Promise this recall, instead.

        Returns:
            The tags of each picture, best first: a list that shows pictures, bars and heat maps in a notebook.
        """
        tagger = self if labels is None else self.with_labels(labels)
        rule = tagger.rule(threshold, top_k, max_tags, precision, recall)
        first: list[Source] = []
        rows = tagger.scores(remember([pictures] if _is_one(pictures) else pictures, first))  # type: ignore[list-item, arg-type]
        return Predictions((rule.tags(row) for row in rows), first, tagger.explain)

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

        A trained label, however it is written, keeps its threshold and calibration. Others get the median threshold and
        the calibration that all labels share. A label given twice counts once.
        """
        if isinstance(labels, str):
            raise TaggerError(f"labels must be a list of names, found the text {shown(labels)}.")
        names = tuple(dict.fromkeys(labels))
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise TaggerError("the list of labels is empty, or one of its labels is. Name at least one label.")
        if self._trained is not self:
            return self._trained.with_labels(names)
        last = self._last  # read once: another thread may ask for other labels meanwhile
        if last is not None and last.classes == names:
            return last
        if self._label_scorer is None:
            known = f"this tagger (head '{self.spec.head}') knows its {len(self.classes)} labels only"
            foreign = next((name for name in names if name not in self.classes), None)
            if foreign is not None:
                near = get_close_matches(foreign.casefold(), self.classes, n=1)
                hint = f": did you mean {shown(near[0])}?" if near else "."
                known = f"unknown label {shown(foreign)}{hint} {known[0].upper()}{known[1:]}: {listed(self.classes)}"
            raise TaggerError(
                f"{known}. A tagger with word queries scores any label: {ANY_WORD}, which comes with Tagloom, or "
                "one of your own (tagloom train … --recipe quick-words)."
            )
        meant = trained_names(names, self.classes)
        limits = dict(zip(self.classes, self.spec.threshold_row().tolist(), strict=True))
        usual = float(np.median(list(limits.values())))
        thresholds = tuple(limits.get(name, usual) for name in meant)
        calibration = self.spec.calibration and self.spec.calibration.of_labels(self.classes, meant)
        counts = self.spec.held_out and self.spec.held_out.of_labels(self.classes, meant)
        learned = dict(zip(self.classes, self.spec.training_positives, strict=False))
        spec = replace(
            self.spec,
            classes=names,
            thresholds=thresholds,
            calibration=calibration,
            held_out=counts,
            training_positives=tuple(learned.get(name, 0) for name in meant) if learned else (),
            words=None,
        )
        network = self._label_scorer.for_labels(meant)
        made = Tagger(
            spec, network, self.engine, self._label_scorer, name=self.name, insides=self._insides, stop=self._stop
        )
        made._trained = self
        self._last = made
        return made

    def explain(
        self,
        picture: Source,
        labels: Sequence[str] | None = None,
        method: str | None = None,
        *,
        stage: int | None = None,
    ) -> Explanation:
        """Show where in a picture labels come from.

        Args:
            picture: A path, an encoded image (bytes), a PIL image or a uint8 array (H, W, 3).
            labels: Labels to explain, whether the picture has them or not; by default the tags found. A tagger with
                word queries takes any labels.
            method: One of `heat_maps.METHODS`; by default the one that fits the head, which needs no torch.
            stage: Look at the map of this stage of the backbone, 1 the earliest, instead of the last map: for
                "eigen-cam" and "grad-cam++", with torch.

        Raises:
            TaggerError: If the tagger cannot do this; the message says what would.
            ImageError: If the picture cannot be read.
        """
        if labels is not None and not set(labels) <= set(self.classes):
            return self.with_labels(labels).explain(picture, labels, method, stage=stage)
        if self._insides is None:
            raise TaggerError("this tagger was not loaded from a folder, so there is no network to look into.")
        chosen = check_method(self.spec, method, () if stage is None else (stage,))
        (batch,) = read_pictures([picture], self.spec.preprocess, threads=1)
        if batch.errors:
            raise batch.errors[0][1]
        row = self.to_scores(self._logits(batch.pixels))[0]
        names = tuple(dict.fromkeys(labels)) if labels is not None else tuple(tag.label for tag in self.tags(row))
        columns = [self.classes.index(name) for name in names]
        shown, size = open_to_show(picture)
        return Explanation(
            labels=names,
            scores=row[columns],
            method=chosen,
            grid=normalised(raw_maps(self._insides, chosen, batch.pixels, columns, self._queries(), stage)),
            size=size,
            box=seen_box(size, self.spec.preprocess),
            picture=shown,
        )

    def label_vectors(self) -> NDArray[np.float32]:
        """Give the word vectors of its labels, (N, d_w), for a tagger with word queries."""
        if self._label_scorer is None:
            raise TaggerError(f"this tagger (head '{self.spec.head}') has no word queries.")
        return self._label_scorer.vectors_of(trained_names(self.classes, self._trained.classes))

    def _queries(self) -> list[WordQueries] | None:
        """Give the words of its labels as they are asked for; None without word queries."""
        if self._label_scorer is None:
            return None
        asked = None if self._trained is self else trained_names(self.classes, self._trained.classes)
        return self._label_scorer.queries(asked)

    @property
    def pictures_at_once(self) -> int:
        """How many pictures the network computes with at once; it decides on the last bits of their scores."""
        return pictures_at_once(self.spec.preprocess, streams=self.engine == "onnx")

    def stream(self, pictures: Iterable[Source | ImageError]) -> Iterator[tuple[int, NDArray[np.float32] | ImageError]]:
        """Give the index of each picture with its scores (N,), or with its error if it cannot be read.

        Pictures are read as they are needed, all cores read and compute, and results come in order.

        Args:
            pictures: As `predict` takes them, in any number. An `ImageError` among them is given back in its place.

        Raises:
            TaggerError: If the network gives a number that is not finite; it names the picture and the tagger.
        """
        for index, result in self.stream_logits(pictures):
            yield index, result if isinstance(result, ImageError) else self.to_scores(result[None])[0]

    def stream_logits(
        self, pictures: Iterable[Source | ImageError]
    ) -> Iterator[tuple[int, NDArray[np.float32] | ImageError]]:
        """Do as `stream`, but give the network's logits (N,), not calibrated and not between 0 and 1."""
        names: dict[int, str] = {}  # of the pictures being read

        def named() -> Iterator[Source | ImageError]:
            for index, picture in enumerate(pictures):
                names[index] = _name_of(picture, index)
                yield picture

        for indices, logits, errors in compute_on_pictures(
            named(),
            self.spec.preprocess,
            self._logits,
            streams=self.engine == "onnx",
            threads=usable_cores(),
            stop=self._stop,
        ):
            results: dict[int, NDArray[np.float32] | ImageError] = dict(errors)
            if logits is not None:
                for row, index in zip(logits, indices, strict=True):
                    self._check_finite(row, names[index])
                results.update(zip(indices, logits, strict=True))
            for index, result in sorted(results.items(), key=lambda item: item[0]):
                names.pop(index)
                yield index, result

    def rule(
        self,
        threshold: float | Sequence[float] | None = None,
        top_k: int | None = None,
        max_tags: int | None = None,
        precision: float | None = None,
        recall: float | None = None,
    ) -> TagRule:
        """Say which classes become tags, once for many pictures: `rule.tags(row)`. The options are those of `predict`.

        `with_labels` gives a tagger of other labels, which has a rule of its own.
        """
        return tag_rule(
            self.classes,
            self.spec.threshold_row(),
            self.spec.task,
            threshold=threshold,
            top_k=top_k,
            max_tags=max_tags,
            precision=precision,
            recall=recall,
            held_out=self.spec.held_out,
        )

    def with_counts(self, counts: HeldOutCounts) -> "Tagger":
        """Give the same tagger with other counts on held-out images, from which it promises."""
        other = copy(self)
        other.spec = replace(self.spec, held_out=counts)
        other._last, other._trained = None, other
        return other

    def tags(
        self,
        row: NDArray[np.float32],
        threshold: float | Sequence[float] | None = None,
        top_k: int | None = None,
        max_tags: int | None = None,
    ) -> list[Tag]:
        """Turn one picture's scores (N,) into tags, best first."""
        return self.rule(threshold, top_k, max_tags).tags(row)

    def to_scores(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Turn logits (n, N) into scores, calibrated where the tagger is, and consistent with its label tree."""
        return to_scores(logits, self.spec.activation, self.spec.calibration, self.spec.tree)

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
            None for the ready tagger that comes with Tagloom, "tagloom:any" for its any-word tagger.
        device: "auto" runs an exported tagger in ONNX Runtime unless there is a GPU; "cpu", "cuda", … run it in torch
            where that is needed.
        words: Where the vectors of labels that were not trained come from, for a tagger with word queries. Name it if
            the tagger's own source has moved, or if it is a model (a folder, or owner/name): a tagger does not choose
            which model is loaded. `tagloom.words` lists the kinds of sources.
    """
    found = find_folder(folder)
    spec = read_spec(found)
    engine = open_engine(found, spec, device, ours=comes_with_tagloom(folder))  # its digest was compared
    scorer = read_label_scorer(found, spec, engine.run, words)
    network = scorer.for_own_classes() if scorer else engine.run
    name = str(found if folder is None else folder)
    return Tagger(spec, network, engine.name, scorer, name=name, insides=engine.insides, stop=engine.stop)


def find_folder(name: str | os.PathLike[str] | None = None) -> Path:
    """Give the tagger folder for a name; one on the hub, "hf-hub:owner/name@revision", is fetched first."""
    if name is None:
        return ready_folder()
    if name == ANY_WORD:
        return any_word_folder()
    if str(name).startswith(ANY_WORD.partition(":")[0] + ":") and not Path(name).exists():
        raise TaggerError(f"{shown(str(name))}: no tagger of this name comes with Tagloom. Did you mean {ANY_WORD}?")
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


def _name_of(picture: Source | ImageError, index: int) -> str:
    """Name a picture in a message: its path, or its number."""
    if isinstance(picture, Encoded):
        return picture.name
    if isinstance(picture, str | os.PathLike):
        return os.fspath(picture)
    if isinstance(picture, PackedImage):
        return str(picture)
    return str(getattr(picture, "filename", "")) or f"picture {index + 1}"


def _is_one(pictures: object) -> bool:
    is_pixels = isinstance(pictures, np.ndarray) and pictures.ndim == 3
    return (
        is_pixels
        or isinstance(pictures, str | bytes | os.PathLike | PackedImage | Encoded)
        or hasattr(pictures, "convert")
    )
