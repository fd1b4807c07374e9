"""A package: a tagger folder with only what predicting needs, made from a run, and measured before it is kept."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.errors import TaggerError
from tagloom.evaluation.evaluate import evaluate
from tagloom.export.float16 import store_in_float16
from tagloom.export.graph import read_logits, write_graph
from tagloom.export.int8 import quantise_network
from tagloom.export.labels import vocabulary_vectors, with_labels
from tagloom.export.measure import Agreement, agreement, times_as_fast
from tagloom.export.pictures import drawn_pictures, read_some, split
from tagloom.export.standalone import STANDALONE_FILE, standalone_difference, write_standalone
from tagloom.predict.any_labels import read_label_scorer
from tagloom.predict.tagger import load
from tagloom.progress import Progress, no_progress
from tagloom.tagger.card import model_card
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.outputs import FEATURES
from tagloom.tagger.spec import (
    CARD_FILE,
    ONNX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    WORDS_FILE,
    TaggerSpec,
    read_spec,
    write_spec,
)
from tagloom.tagger.whole_folder import check_free, move_into
from tagloom.words.vector_files import write_vectors

Stored: TypeAlias = Literal["float32", "float16", "int8"]
PROGRAM_FILE = "model.pt2"

MAX_DIFFERENCE = 0.02  # of a score, with float16; with a frozen Lite0, scores of photographs differ by up to 0.005
MIN_COMMON_TAGS = 0.9  # with int8, of the tags that either gives
MAX_MAP_LOST = 0.5


@dataclass(frozen=True)
class Extras:
    """Files for other programs, beside the tagger.

    Attributes:
        preprocess_inside: Write `standalone.onnx`, which takes pictures of any size.
        scores_inside: Write `standalone.onnx`, which gives calibrated scores.
        torch_program: Write `model.pt2`, for `torch.export.load`.
    """

    preprocess_inside: bool = False
    scores_inside: bool = False
    torch_program: bool = False

    def files(self) -> list[str]:
        """Name the files."""
        standalone = [STANDALONE_FILE] if self.preprocess_inside or self.scores_inside else []
        return standalone + [PROGRAM_FILE] * self.torch_program


@dataclass(frozen=True)
class Measured:
    """What was measured of a package whose network is not the run's own.

    Attributes:
        agreement: How alike it and the run are, in scores and tags.
        speed: How many times as fast it is as the run in float32, on one core of this machine.
        precision: mAP of the run and of the package, where a table was given.
        in_float: With int8, the weights of layers that stayed in floats.
    """

    agreement: Agreement
    speed: float
    precision: tuple[float, float] | None = None
    in_float: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Give it as `tagger.json` and the model card tell it."""
        told: dict[str, Any] = {
            "scores_differ_by_at_most": round(self.agreement.largest, 6),
            "scores_differ_on_average_by": round(self.agreement.mean, 6),
            "tags_in_common_with_float32": round(self.agreement.tags, 4),
            "times_as_fast_as_float32": round(self.speed, 2),
        }
        if self.precision is not None:
            told |= dict(zip(("mAP_in_float32", "mAP_as_stored"), np.round(self.precision, 2).tolist(), strict=True))
        return told | ({"layers_in_float32": list(self.in_float)} if self.in_float else {})


def write_package(
    run: Path,
    out: Path,
    *,
    stored: Stored = "float32",
    calibrate: Sequence[Path] = (),
    extras: Extras | None = None,
    labels: Sequence[str] = (),
    vocabulary: Mapping[str, str] | None = None,
    check: LabelTable | None = None,
    keep_anyway: bool = False,
    progress: Progress = no_progress,
) -> Measured | None:
    """Write `tagger.json`, `model.onnx` and the model card of a run to a folder of their own, without torch weights.

    `model.onnx` is copied from the run. If the run has none, or one from before heat maps, it is made from the weights;
    without weights, heat maps are added to the old one. With `float16` or `int8`, the package is compared with the run.

    Args:
        run: The tagger folder.
        out: The folder to write. It must not hold a tagger, nor a file that would be overwritten.
        stored: "float16" halves the file; weights are still used in float32. With "int8" the network computes in eight
            bits: the file shrinks to under a third, and it is faster. It shows no heat maps then.
        calibrate: For "int8": images, or where they are, as `tagloom predict` takes them. A quarter of them is kept to
            compare by.
        extras: Further files, for other programs.
        labels: For a tagger with word queries: what the package tags with, instead of the run's classes.
        vocabulary: Likewise: words whose vectors the package brings along, in float16, and what is encoded for each.
        check: A labelled table to compare mAP on.
        keep_anyway: Keep what would be refused.
        progress: Called with steps done and steps to do.

    Returns:
        What was measured; None for "float32", since nothing was changed.

    Raises:
        TaggerError: If the package disagrees with the run, or is slower with "int8". Nothing is written then.
    """
    spec = read_spec(run)
    spec = replace(spec, data={name: _shortened(value) for name, value in spec.data.items()})
    if stored != "float32" and _is_int8(spec):
        raise TaggerError(f"{run}: is in int8 already. Export the run that it was made from in {stored}.")
    wanted = extras or Extras()
    words = [name for name in (WORDS_FILE, VOCABULARY_FILE) if (run / name).is_file()]
    check_free(out, (ONNX_FILE, CARD_FILE, *words, *([VOCABULARY_FILE] if vocabulary else []), *wanted.files()))
    added = None if vocabulary is None else vocabulary_vectors(run, spec, vocabulary)
    spec, own = with_labels(run, spec, labels) if labels else (spec, None)
    with tempfile.TemporaryDirectory(prefix="tagloom-export-") as temporary:
        whole, small = Path(temporary, "whole"), Path(temporary, "small")
        for folder in (whole, small):
            folder.mkdir()
            write_spec(spec, folder)
            for name in words:
                shutil.copyfile(run / name, folder / name)
            if own is not None:
                write_vectors(folder / WORDS_FILE, own)
        _float32_network(run, spec, whole / ONNX_FILE)
        made, measured = (whole if stored == "float32" else small), None
        if stored == "float16":
            measured = _in_float16(whole, small, spec)
        elif stored == "int8":
            measured = _in_int8(whole, small, spec, read_some(calibrate, spec.preprocess), progress)
        if measured is not None:
            if check is not None:
                scored = [
                    float(evaluate(load(folder), check, progress=progress).metrics["mAP"]) for folder in (whole, small)
                ]
                measured = replace(measured, precision=(scored[0], scored[1]))
            if not keep_anyway:
                _refuse_bad(measured, stored, run)
            spec = replace(spec, data=spec.data | {"weights_stored_in": stored} | measured.as_data())
        if added is not None:
            write_vectors(made / VOCABULARY_FILE, added, half=True)
        _write_extras(run, whole, made, spec, wanted)
        (made / CARD_FILE).write_text(model_card(spec), encoding="utf-8", errors="backslashreplace")
        write_spec(spec, made)
        move_into(made, out)
    return measured


def _in_float16(whole: Path, small: Path, spec: TaggerSpec) -> Measured:
    store_in_float16(whole / ONNX_FILE, small / ONNX_FILE)
    found = agreement(load(whole, device="cpu"), load(small, device="cpu"), drawn_pictures())
    return Measured(found, _speed(small, whole, spec))


def _in_int8(whole: Path, small: Path, spec: TaggerSpec, pictures: NDArray[np.uint8], progress: Progress) -> Measured:
    by, compared = split(pictures)
    words = _own_words(whole, spec)
    exact = load(whole, device="cpu")
    agreed: list[Agreement] = []

    def is_good(model: Any) -> bool:
        write_graph(model, small / ONNX_FILE)
        agreed.append(agreement(exact, load(small, device="cpu"), list(compared)))
        return agreed[-1].tags >= MIN_COMMON_TAGS

    plain = read_logits(whole / ONNX_FILE)
    result = quantise_network(plain, (by, words), is_good, progress)
    write_graph(plain, whole / "logits.onnx")  # the rival: as much is left out of it
    speed = _speed(small, whole, spec, "logits.onnx")
    return Measured(agreed[-1], speed, in_float=result.in_float)


def _speed(new: Path, old: Path, spec: TaggerSpec, old_name: str = ONNX_FILE) -> float:
    """Compare two networks as the predictor runs them: a picture at a time, one core each."""
    size = spec.preprocess.size
    picture = np.random.default_rng(0).integers(0, 256, (1, size, size, 3), dtype=np.uint8)
    words = _own_words(old, spec)
    networks = [OnnxNetwork(path, threads=1, first_only=True) for path in (new / ONNX_FILE, old / old_name)]
    return times_as_fast(*(partial(network, picture, *words, fetch=network.outputs[:1]) for network in networks))


def _own_words(folder: Path, spec: TaggerSpec) -> tuple[NDArray[np.float32], ...]:
    """Give the words of the tagger's own classes as its network takes them; none without word queries."""
    scorer = read_label_scorer(folder, spec, lambda pictures, words: words)
    return () if scorer is None else (scorer.queries()[0].words,)


def _refuse_bad(measured: Measured, stored: Stored, run: Path) -> None:
    """Refuse a package that differs too much from its run, or that is slower where it should be faster."""
    found, lost = measured.agreement, 0.0
    if measured.precision is not None:
        lost = measured.precision[0] - measured.precision[1]
    # In this form the conditions refuse NaN too.
    alike = found.largest <= MAX_DIFFERENCE if stored == "float16" else found.tags >= MIN_COMMON_TAGS
    if alike and lost <= MAX_MAP_LOST and (stored == "float16" or measured.speed >= 1):
        return
    allowed = (
        f"allowed: {MAX_DIFFERENCE}"
        if stored == "float16"
        else f"{100 * found.tags:.1f} % of tags in common, at least {100 * MIN_COMMON_TAGS:.0f} % are needed"
    )
    raise TaggerError(
        f"{run}: in {stored}, scores differ by up to {found.largest:.3f} ({allowed})"
        + (f", {lost:.2f} mAP are lost (allowed: {MAX_MAP_LOST})" if measured.precision is not None else "")
        + f", and it is {measured.speed:.2f} times as fast as in float32 on this machine. Nothing was written. Export "
        f"it without --{stored}, or keep it all the same with --keep-anyway."
    )


def _write_extras(run: Path, whole: Path, made: Path, spec: TaggerSpec, extras: Extras) -> None:
    if STANDALONE_FILE in extras.files():
        inside = (extras.preprocess_inside, extras.scores_inside)
        # What surrounds the network is compared in float32, where nothing else makes a difference.
        proof = whole / f"proof-{STANDALONE_FILE}"
        write_standalone(whole / ONNX_FILE, proof, spec, *inside)
        worst = standalone_difference(proof, load(whole, device="cpu"), drawn_pictures(), *inside)
        proof.unlink()
        if not worst <= MAX_DIFFERENCE:
            raise TaggerError(
                f"{run}: {STANDALONE_FILE} gives scores that differ by up to {worst:.3f} (allowed: {MAX_DIFFERENCE}). "
                "Nothing was written. Export it without --preprocess-inside and --scores-inside."
            )
        write_standalone(made / ONNX_FILE, made / STANDALONE_FILE, spec, *inside)
    if extras.torch_program:
        from tagloom.models.network import load_network
        from tagloom.models.program_export import export_program

        network = load_network(run, spec)
        given = network.word_input()
        export_program(network, made / PROGRAM_FILE, size=spec.preprocess.size, words=given and given.example)


def _shortened(value: Any) -> Any:
    """Cut an absolute path to its last two parts: the rest is private, and means nothing on another machine."""
    if isinstance(value, str) and Path(value).is_absolute():
        return "/".join(Path(value).parts[-2:])
    return value


def _is_int8(spec: TaggerSpec) -> bool:
    return spec.data.get("weights_stored_in") == "int8"


def _float32_network(run: Path, spec: TaggerSpec, path: Path) -> None:
    exported = run / ONNX_FILE
    if exported.is_file() and (_is_int8(spec) or FEATURES in OnnxNetwork(exported).outputs):
        shutil.copyfile(exported, path)
        return
    if exported.is_file() and not (run / WEIGHTS_FILE).is_file():
        from tagloom.models.onnx_upgrade import add_insides

        add_insides(exported, path, spec)
        return
    from tagloom.models.network import export_network, load_network

    network = load_network(run, spec)
    export_network(network, path, size=spec.preprocess.size)
