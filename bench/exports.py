"""What exports are worth: size, agreement, mAP and speed of the ready tagger in float32, float16 and int8.

    python bench/exports.py PHOTOS [--check TABLE]

PHOTOS are some hundred images to quantise by, for example a list of 256 training images of coco-mini; TABLE is a
label table to measure mAP on. All networks run as the predictor runs them, a picture at a time on one core, in turns;
the least processor time of many calls counts. "float32, all outputs" computes heat maps too; "float32" gives logits
alone, which is what the predictor computes, and is the rival of the others. With OpenVINO installed, it runs the same
files as a further rival.
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

from tagloom.data import load_table
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
    parser.add_argument("--check")
    given = parser.parse_args()
    table = None if given.check is None else load_table(given.check)
    size = read_spec(ready_folder()).preprocess.size
    picture = np.random.default_rng(0).integers(0, 256, (1, size, size, 3), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary)
        files = {"float32, all outputs": made / "all.onnx", "float32": made / "logits.onnx"}
        write_float32(files["float32, all outputs"])
        write_graph(read_logits(ready_folder() / "model.onnx"), files["float32"])
        for stored in ("float16", "int8"):
            places = [given.photos] if stored == "int8" else []
            measured = write_package(
                ready_folder(), made / stored, stored=stored, calibrate=places, check=table, keep_anyway=True
            )
            files[stored] = made / stored / "model.onnx"
            print(f"{stored}: {measured}", flush=True)
        rivals = {
            name: OnnxNetwork(path, threads=1, first_only=not name.endswith("all outputs"))
            for name, path in files.items()
        }
        runs: dict[str, Callable[[], object]] = {
            name: partial(network, picture, fetch=None if name.endswith("all outputs") else network.outputs[:1])
            for name, network in rivals.items()
        }
        if find_spec("openvino"):
            runs |= {f"OpenVINO, {name}": openvino(files[name], picture) for name in ("float32", "int8")}
        with ThreadPoolExecutor(1) as one:
            seconds = one.submit(best_seconds, runs).result()
        rival = seconds["float32"]
        for name, best in seconds.items():
            megabytes = f"{files[name].stat().st_size / 1e6:.1f} MB, " if name in files else ""
            print(f"{name}: {megabytes}{1000 * best:.2f} ms, {rival / best:.2f} times as fast as float32")


def write_float32(path: Path) -> None:
    """Write the ready tagger's network with heat maps and with weights in float32."""
    import onnx

    from tagloom.export.graph import fold_constants

    model = onnx.load(str(ready_folder() / "model.onnx"))
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


def best_seconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Run all in turns, and give the least processor time of each, in all threads of this process."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            for _ in range(CALLS):
                started = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
