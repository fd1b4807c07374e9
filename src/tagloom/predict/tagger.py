"""A tagger that is ready to use: pictures in, labels out."""

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
from tagloom.predict.any_labels import Ask, Asker, Run, read_asker
from tagloom.ready import ready_folder
from tagloom.scoring.calibration import to_scores
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.spec import ONNX_FILE, WEIGHTS_FILE, TaggerSpec, read_spec

HUB_PREFIX = "hf-hub:"


class Tag(NamedTuple):
    """A label and how sure the tagger is of it, from 0 to 1."""

    label: str
    score: float


class Tagger:
    """Puts labels on pictures.

    Attributes:
        spec: What its folder says of it.
        classes: Label names, in the order of `scores`.
        engine: "onnx" or "torch".
    """

    def __init__(self, spec: TaggerSpec, run: Run, engine: str, asker: Asker | None = None) -> None:
        self.spec = spec
        self.classes = spec.classes
        self.engine = engine
        self._run = run
        self._asker = asker
        self._last: Tagger | None = None
        self._trained: Tagger = self  # of whose labels the thresholds are known

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
            threshold: Score from which a label counts, one for all or one per class; by default those that were
                chosen when the tagger was trained (a single-label tagger gives its best class).
            top_k: At most so many labels per picture. Without a threshold: exactly so many.
            labels: The labels to choose among instead of the tagger's classes, as `with_labels` takes them.

        Returns:
            For each picture its tags, best first.
        """
        tagger = self if labels is None else self.with_labels(labels)
        return [tagger.tags(row, threshold, top_k) for row in tagger.scores(pictures)]

    def scores(self, pictures: Source | Iterable[Source], labels: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Give every label's score, from 0 to 1: (pictures, classes), or (pictures, labels) of labels as `with_labels`.

        An unreadable picture raises its `ImageError`.
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
        """Give a tagger of other labels, trained or not, in any number and order; only a tagger of words can.

        A label that was trained keeps its threshold and calibration; others get the median of all thresholds and the
        calibration that all labels share. Labels that are given twice count once.
        """
        if isinstance(labels, str):
            raise TaggerError(f"labels is a list of names, found the text {labels[:40]!r}")
        names = tuple(dict.fromkeys(labels))
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise TaggerError("the list of labels is empty, or a label in it is. Name at least one.")
        if self._trained is not self:
            return self._trained.with_labels(names)
        if self._last is not None and self._last.classes == names:
            return self._last
        if self._asker is None:
            raise TaggerError(
                f"this tagger (head '{self.spec.head}') knows its {len(self.classes)} labels only. Any labels can be "
                "asked of a tagger of words: tagloom train … --recipe quick-words"
            )
        limits = dict(zip(self.classes, self.spec.threshold_row().tolist(), strict=True))
        usual = float(np.median(list(limits.values())))
        thresholds = tuple(limits.get(name, usual) for name in names)
        calibration = self.spec.calibration and self.spec.calibration.of_labels(self.classes, names)
        spec = replace(self.spec, classes=names, thresholds=thresholds, calibration=calibration, words=None)
        self._last = Tagger(spec, self._asker.run_others(names), self.engine, self._asker)
        self._last._trained = self
        return self._last

    def stream(
        self, pictures: Iterable[Source], batch_size: int = 32
    ) -> Iterator[tuple[int, NDArray[np.float32] | ImageError]]:
        """Give the number of each picture with its scores (N,), or with the error of one that cannot be read."""
        for place, result in self.stream_logits(pictures, batch_size):
            yield place, result if isinstance(result, ImageError) else self.to_scores(result[None])[0]

    def stream_logits(
        self, pictures: Iterable[Source], batch_size: int = 32
    ) -> Iterator[tuple[int, NDArray[np.float32] | ImageError]]:
        """As `stream`, with logits (N,) as the network gives them, neither calibrated nor between 0 and 1."""
        for batch in read_pictures(pictures, self.spec.preprocess, batch_size=batch_size, threads=usable_cores()):
            results: dict[int, NDArray[np.float32] | ImageError] = dict(batch.errors)
            if batch.indices:
                results.update(zip(batch.indices, self._logits(batch.pixels), strict=True))
            yield from sorted(results.items(), key=lambda item: item[0])

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
        return [Tag(self.classes[place], float(row[place])) for place in order[:top_k]]

    def _limits(self, threshold: float | Sequence[float]) -> NDArray[np.float32]:
        # In float32 as the scores are: a score that was read from a file is then not over itself.
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
        logits = self._run(pixels)
        if logits.ndim != 2 or logits.shape[1] != len(self.classes):
            raise TaggerError(
                f"the network gives {logits.shape[1:]} scores per picture, but tagger.json names {len(self.classes)} "
                "classes. Take both files from the same training."
            )
        return logits


def load(folder: str | os.PathLike[str] | None = None, *, device: str = "auto", words: str | None = None) -> Tagger:
    """Load a tagger.

    Args:
        folder: A tagger folder, or "hf-hub:owner/name" for one on the Hugging Face hub; None for the ready tagger,
            which comes with Tagloom.
        device: "auto" runs an exported tagger in ONNX Runtime unless there is a GPU; "cpu", "cuda", … run it in torch
            where that is needed.
        words: Where the vectors of labels that were not trained come from, for a tagger of words whose own source has
            moved, or is a model (a folder, or owner/name), which a tagger alone cannot have loaded; `tagloom.words`
            lists the kinds.
    """
    place = find_folder(folder)
    spec = read_spec(place)
    exported = place / ONNX_FILE
    without_torch = device == "auto" and not (_has_gpu() and (place / WEIGHTS_FILE).is_file())
    if exported.is_file() and (device == "cpu" or without_torch):
        network = OnnxNetwork(exported)
        asker = read_asker(place, spec, lambda pictures, asked: network(pictures, asked)[0], words)
        return Tagger(spec, asker.run_own() if asker else lambda pictures: network(pictures)[0], "onnx", asker)
    if find_spec("torch") is None:
        why = f"device {device}" if exported.is_file() else f"{place} has no {ONNX_FILE}; running it from its weights"
        raise MissingExtraError(why, "train")
    run, ask = _torch_run(place, spec, device)
    return Tagger(spec, run, "torch", read_asker(place, spec, ask, words))


def find_folder(name: str | os.PathLike[str] | None = None) -> Path:
    """Give the tagger folder that a name stands for; one on the hub, "hf-hub:owner/name", is fetched first."""
    if name is None:
        return ready_folder()
    return _from_hub(str(name)) if str(name).startswith(HUB_PREFIX) else Path(name)


def _torch_run(folder: Path, spec: TaggerSpec, device: str) -> tuple[Run, Ask]:
    import torch

    from tagloom.models.network import load_network, pick_device

    place = pick_device(device)
    network = load_network(folder, spec).to(place)

    @torch.inference_mode()
    def run(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = network(torch.from_numpy(pictures).to(place)).float().cpu().numpy()
        return logits

    @torch.inference_mode()
    def ask(pictures: NDArray[np.uint8], words: NDArray[np.float32]) -> NDArray[np.float32]:
        tensors = [torch.from_numpy(array).to(place) for array in (pictures, words)]
        logits: NDArray[np.float32] = network(*tensors).float().cpu().numpy()
        return logits

    return run, ask


def _from_hub(name: str) -> Path:
    if find_spec("huggingface_hub") is None:
        raise MissingExtraError("fetching a tagger from the hub", "train")
    from huggingface_hub import snapshot_download

    try:
        wanted = ["*.json", "*.safetensors", "*.onnx"]
        return Path(snapshot_download(name.removeprefix(HUB_PREFIX), allow_patterns=wanted))
    except Exception as error:
        raise TaggerError(f"{name}: could not be fetched from the hub ({type(error).__name__}: {error}).") from error


def _has_gpu() -> bool:
    """Look for a GPU that torch could use, without the seconds that importing torch takes."""
    return find_spec("torch") is not None and Path("/dev/nvidiactl").exists()


def _is_one(pictures: object) -> bool:
    is_pixels = isinstance(pictures, np.ndarray) and pictures.ndim == 3
    return is_pixels or isinstance(pictures, str | bytes | os.PathLike) or hasattr(pictures, "convert")
