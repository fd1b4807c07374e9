"""A package: a tagger folder with only what predicting needs, made from a run. It needs no torch."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tagloom.data.scenes import draw_scene
from tagloom.errors import TaggerError, TagloomError
from tagloom.predict.float16 import store_in_float16
from tagloom.predict.tagger import load
from tagloom.tagger.card import model_card
from tagloom.tagger.spec import CARD_FILE, ONNX_FILE, SPEC_FILE, WORDS_FILE, TaggerSpec, read_spec, write_spec

MAX_DIFFERENCE = 0.02  # of a score from 0 to 1; with a frozen Lite0, scores of photographs differ by up to 0.005
CHECKED_PICTURES = 8


def write_package(run: Path, out: Path, *, float16: bool = False) -> float | None:
    """Write `tagger.json`, `model.onnx` and the model card of a run to a folder of their own, without torch weights.

    `model.onnx` is copied from the run, or made from its weights if the run has none. With `float16`, the package is
    checked to score as the run does.

    Args:
        run: The tagger folder.
        out: The folder to write. It must not hold a tagger, nor a file that would be overwritten.
        float16: Store weights in float16, which halves the size. They are still used in float32.

    Returns:
        With `float16`, the largest difference between scores of the run and of the package, on drawn pictures; None
        without it, since nothing was changed.

    Raises:
        TaggerError: If scores differ too much. Nothing is written then.
    """
    spec = read_spec(run)
    spec = replace(spec, data={name: _shortened(value) for name, value in spec.data.items()})
    with_words = (run / WORDS_FILE).is_file()
    _check_free(out, (ONNX_FILE, CARD_FILE, *([WORDS_FILE] if with_words else [])))
    worst = None
    with tempfile.TemporaryDirectory(prefix="tagloom-export-") as temporary:
        whole, small = Path(temporary, "whole"), Path(temporary, "small")
        for folder in (whole, small):
            folder.mkdir()
            write_spec(spec, folder)
            if with_words:
                shutil.copyfile(run / WORDS_FILE, folder / WORDS_FILE)
        _float32_network(run, spec, whole / ONNX_FILE)
        if float16:
            store_in_float16(whole / ONNX_FILE, small / ONNX_FILE)
            worst = _largest_difference(whole, small)
            if not worst <= MAX_DIFFERENCE:  # in this form it refuses NaN too
                raise TaggerError(
                    f"{run}: with weights in float16, scores differ by up to {worst:.3f} (allowed: {MAX_DIFFERENCE}). "
                    "Nothing was written. Export it without --float16."
                )
            stored = {"weights_stored_in": "float16", "scores_differ_by_at_most": round(worst, 6)}
            spec = replace(spec, data=spec.data | stored)
        made = small if float16 else whole
        (made / CARD_FILE).write_text(model_card(spec), encoding="utf-8", errors="backslashreplace")
        write_spec(spec, made)
        _move(made, out)
    return worst


def _shortened(value: Any) -> Any:
    """Cut an absolute path to its last two parts: the rest is private, and means nothing on another machine."""
    if isinstance(value, str) and Path(value).is_absolute():
        return "/".join(Path(value).parts[-2:])
    return value


def _check_free(out: Path, names: Sequence[str]) -> None:
    """Refuse a folder in which something would be overwritten; `--out .` is quickly typed."""
    if (out / SPEC_FILE).exists():
        raise TagloomError(f"{out}: holds a tagger. Name another --out, or delete that tagger first.")
    if taken := [name for name in names if (out / name).exists()]:
        raise TagloomError(
            f"{out}: holds a {' and a '.join(taken)} that would be overwritten. Name another --out, best a new folder."
        )


def _float32_network(run: Path, spec: TaggerSpec, path: Path) -> None:
    if (run / ONNX_FILE).is_file():
        shutil.copyfile(run / ONNX_FILE, path)
        return
    from tagloom.models.network import load_network
    from tagloom.models.onnx_export import export_onnx

    network = load_network(run, spec)
    export_onnx(network, path, size=spec.preprocess.size, words=network.word_input())


def _largest_difference(first: Path, second: Path) -> float:
    """Score drawn pictures and noise with two taggers, and give the largest difference."""
    pictures = [np.asarray(draw_scene(seed=0, index=index)[0]) for index in range(CHECKED_PICTURES)]
    pictures += list(np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8))
    ours, theirs = (load(folder, device="cpu").scores(pictures) for folder in (first, second))
    return float(np.abs(ours - theirs).max())


def _move(made: Path, out: Path) -> None:
    """Move the finished files to their folder; `tagger.json` last, because it makes the folder a tagger."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in sorted(made.iterdir(), key=lambda file: file.name == SPEC_FILE):
            shutil.move(file, out / file.name)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be written ({error}). Name another --out.") from error
