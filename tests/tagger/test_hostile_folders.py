"""A tagger folder from a stranger cannot run code or take the machine: it is refused by our own errors, in seconds."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ATTACK = Path(__file__).with_name("attack.py")
MOST_MB = 2000
MOST_SECONDS = 10  # of one file; the machine may be busy


@pytest.fixture(scope="module")
def small_folder(untrained_run, tmp_path_factory) -> Path:
    """A tagger folder whose network is small, so that a round takes milliseconds."""
    import onnx
    from onnx import TensorProto
    from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor, make_tensor_value_info

    nodes = [
        make_node("Cast", ["pictures"], ["values"], to=TensorProto.FLOAT),
        make_node("Transpose", ["values"], ["channels"], perm=[0, 3, 1, 2]),
        make_node("Conv", ["channels", "kernel"], ["map"], strides=[8, 8]),
        make_node("Relu", ["map"], ["rectified"]),
        make_node("ReduceMean", ["rectified", "axes"], ["pooled"], keepdims=0),
        make_node("Shape", ["pooled"], ["shape"]),
        make_node("Expand", ["bias", "shape"], ["offsets"]),
        make_node("Add", ["pooled", "offsets"], ["logits"]),
    ]
    weights = [
        make_tensor("kernel", TensorProto.FLOAT, [5, 3, 2, 2], [0.01 * number for number in range(60)]),
        make_tensor("axes", TensorProto.INT64, [2], [2, 3]),
        make_tensor("bias", TensorProto.FLOAT, [5], [0.0, 1.0, -1.0, 2.0, -2.0]),
    ]
    graph = make_graph(
        nodes,
        "small",
        [make_tensor_value_info("pictures", TensorProto.UINT8, ["batch", 32, 32, 3])],
        [make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
        weights,
    )
    folder = tmp_path_factory.mktemp("hostile") / "small"
    folder.mkdir()
    model = make_model(graph, opset_imports=[make_opsetid("", 20)], ir_version=10)
    for name in ("model.onnx", "small.onnx"):
        onnx.save(model, str(folder / name))
    for name in ("tagger.json", "model.safetensors"):
        shutil.copyfile(untrained_run / name, folder / name)
    content = json.loads((folder / "tagger.json").read_text(encoding="utf-8"))
    figures = {"mAP": 50.0, "AP": [50.0, None, 1.0, 2.0, 3.0], "calibration": {"before": {"equal-width": {"ECE": 2.0}}}}
    content |= {
        "metrics": {"validation": figures},
        "data": {"classes_without_positive": ["dog"]},
        "thresholds": [0.5] * 5,
    }
    (folder / "tagger.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def attack(folder: Path, work: Path, rounds: dict[str, int]) -> None:
    base = shutil.copytree(folder, work / "base")
    kinds = [f"{kind}:{count}" for kind, count in rounds.items()]
    ran = subprocess.run(
        [sys.executable, str(ATTACK), *kinds, str(base)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    reports = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    for report in reports:
        print({name: value if name != "odd" else len(value) for name, value in report.items()})
    for report in reports:
        assert report["odd"] == [], "\n".join(report["odd"][:5])
        assert report["refused"] > 0, "the files were harmless, so the test proves nothing"
        assert report["slowest"] < MOST_SECONDS, report["kind"]
        assert report["mb"] < MOST_MB, report["kind"]
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert [report["kind"] for report in reports] == list(rounds)


@pytest.mark.fuzz
def test_hostile_files_of_the_small_install(small_folder, tmp_path, fuzz_rounds: Callable[[int], int]) -> None:
    wanted = {"tagger.json": 2000, "words": 1500, "recipe.yaml": 1500, "onnx": 2500}
    attack(small_folder, tmp_path, {kind: fuzz_rounds(count) for kind, count in wanted.items()})


@pytest.mark.fuzz
def test_hostile_files_of_a_run(small_folder, tmp_path, fuzz_rounds: Callable[[int], int]) -> None:
    wanted = {"run.json": 1500, "safetensors": 1000}
    attack(small_folder, tmp_path, {kind: fuzz_rounds(count) for kind, count in wanted.items()})
