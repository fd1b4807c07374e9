"""What exports are worth: size, agreement, mAP and speed of a tagger in float32, float16 and int8.

    python bench/exports.py PHOTOS [--run FOLDER] [--check TABLE]

PHOTOS are some hundred images to quantise by, for example a list of 256 training images of coco-mini. FOLDER is the
tagger's, by default the ready one. TABLE is a label table to measure mAP on. All networks run as the predictor runs
them, a picture at a time on one core, in turns; the least processor time of many calls counts. "float32, all outputs"
computes heat maps too; "float32" gives logits alone, which is what the predictor computes, and is the rival of the
others. With OpenVINO installed, it runs the same files as a further rival.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from drawn import image_folder
from ratio import Ratio, of_seconds
from tagloom.data import load_table
from tagloom.data.table import LabelTable
from tagloom.export.graph import read_logits, write_graph
from tagloom.export.package import write_package
from tagloom.ready import ready_folder
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.spec import read_spec

ROUNDS, CALLS = 20, 6


def main() -> None:
    """Export, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--run", type=Path, default=ready_folder())
    parser.add_argument("--check")
    given = parser.parse_args()
    table = None if given.check is None else load_table(given.check)
    with tempfile.TemporaryDirectory() as temporary:
        files = write_files(given.run, Path(temporary), given.photos, table)
        seconds = measure(files, size_of(given.run), ROUNDS)
        rival = seconds["float32"]
        for name, best in seconds.items():
            megabytes = f"{files[name].stat().st_size / 1e6:.1f} MB, " if name in files else ""
            print(f"{name}: {megabytes}{1000 * best:.2f} ms, {rival / best:.2f} times as fast as float32")


def run(brief: bool = False) -> list[Ratio]:
    """Compare exports that are quantised by drawn scenes, or by the photographs of TAGLOOM_BENCH_PHOTOS."""
    with tempfile.TemporaryDirectory() as temporary:
        photos = image_folder(Path(temporary, "photos"), 16 if brief else 160)
        files = write_files(ready_folder(), Path(temporary), photos, None)
        seconds = measure(files, size_of(ready_folder()), 2 if brief else ROUNDS)
    rival = seconds.pop("float32")
    return [
        of_seconds(f"the ready tagger's network on one picture, {name}", "float32, logits alone", own, rival)
        for name, own in seconds.items()
    ]


def size_of(folder: Path) -> int:
    """Give the side of the pictures that a tagger looks at."""
    return read_spec(folder).preprocess.size


def write_files(folder: Path, made: Path, photos: Path, table: LabelTable | None) -> dict[str, Path]:
    """Write a tagger's network in every form, and print what each export measured of itself."""
    files = {"float32, all outputs": made / "all.onnx", "float32": made / "logits.onnx"}
    write_float32(folder, files["float32, all outputs"])
    write_graph(read_logits(folder / "model.onnx"), files["float32"])
    for stored in ("float16", "int8"):
        places = [photos] if stored == "int8" else []
        measured = write_package(folder, made / stored, stored=stored, calibrate=places, check=table, keep_anyway=True)
        files[stored] = made / stored / "model.onnx"
        print(f"{stored}: {measured}", flush=True)
    return files


def measure(files: dict[str, Path], size: int, rounds: int) -> dict[str, float]:
    """Give the least seconds of a core that each network takes for a picture, as the predictor runs it."""
    picture = np.random.default_rng(0).integers(0, 256, (1, size, size, 3), dtype=np.uint8)
    runs: dict[str, Callable[[], object]] = {}
    for name, path in files.items():
        first_only = not name.endswith("all outputs")
        network = OnnxNetwork(path, threads=1, first_only=first_only)
        runs[name] = partial(network, picture, fetch=network.outputs[:1] if first_only else None)
    if find_spec("openvino"):
        runs |= {f"OpenVINO, {name}": openvino(files[name], picture) for name in ("float32", "int8")}
    with ThreadPoolExecutor(1) as one:  # ONNX Runtime is asked from a thread that is not the main one
        return one.submit(best_seconds, runs, rounds).result()


def write_float32(folder: Path, path: Path) -> None:
    """Write a tagger's network with heat maps and with weights in float32."""
    import onnx

    from tagloom.export.graph import fold_constants

    model = onnx.load(str(folder / "model.onnx"))
    fold_constants(model)
    write_graph(model, path)


def openvino(path: Path, picture: np.ndarray) -> Callable[[], object]:
    """Give a function that runs a file in OpenVINO, on one thread and in float32 where the file is."""
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({0: list(picture.shape)})
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    return lambda: request.infer({0: picture})


def best_seconds(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run all in turns, and give the least processor time of each, in all threads of this process."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(CALLS):
                started = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
