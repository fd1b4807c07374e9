"""An ONNX file is looked at before it is run: what could take the machine, or read another file, is refused unrun."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.helper import (
    make_function,
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor,
    make_tensor_value_info,
)

from tagloom.errors import TaggerError
from tagloom.ready import ready_folder
from tagloom.tagger.onnx_check import check_onnx
from tagloom.tagger.onnx_runner import OnnxNetwork, network_memory
from tagloom.tagger.protobuf import Message

PICTURES = np.zeros((2, 8, 8, 3), np.uint8)
MEAN = [
    make_node("Cast", ["pictures"], ["values"], to=TensorProto.FLOAT),
    make_node("ReduceMean", ["values", "axes"], ["mean"], keepdims=0),
]


def whole_numbers(name: str, *values: int) -> onnx.TensorProto:
    return make_tensor(name, TensorProto.INT64, [len(values)], values)


def write(
    path: Path, nodes: list, tensors: list = (), result: str = "mean", kind: int = TensorProto.FLOAT, **options: object
) -> Path:
    graph = make_graph(
        [*MEAN, *nodes],
        "test",
        [make_tensor_value_info("pictures", TensorProto.UINT8, ["batch", 8, 8, 3])],
        [make_tensor_value_info(result, kind, None)],
        [whole_numbers("axes", 1, 2), make_tensor("one", TensorProto.FLOAT, [1, 1], [1.0]), *tensors],
    )
    options = {"opset_imports": [make_opsetid("", 20)], "ir_version": 10} | options
    path.write_bytes(make_model(graph, **options).SerializeToString())
    return path


def test_a_plain_network_passes_and_runs(tmp_path):
    (mean,) = OnnxNetwork(write(tmp_path / "model.onnx", []))(PICTURES + 7)
    np.testing.assert_array_equal(mean, np.full((2, 3), 7, np.float32))


def test_the_ready_tagger_passes():
    check_onnx(ready_folder() / "model.onnx")


TOO_LARGE = r"needs more than 1.25 GiB of memory for one picture.*TAGLOOM_NETWORK_GIB|exceeds the supported maximum"
HUGE = (2**18, 2**18)  # 256 GiB of float32


@pytest.mark.parametrize(
    ("nodes", "tensors"),
    [
        ([make_node("ConstantOfShape", ["sizes"], ["large"])], [whole_numbers("sizes", *HUGE)]),
        ([make_node("Expand", ["one", "sizes"], ["large"])], [whole_numbers("sizes", *HUGE)]),
        ([make_node("Tile", ["one", "sizes"], ["large"])], [whole_numbers("sizes", *HUGE)]),
        ([make_node("Pad", ["one", "sizes"], ["large"])], [whole_numbers("sizes", 0, 0, *HUGE)]),
        (
            [make_node("Identity", ["one"], ["x0"])]
            + [make_node("Concat", [f"x{step}"] * 2, [f"x{step + 1}"], axis=0) for step in range(36)]
            + [make_node("Identity", ["x36"], ["large"])],
            [],
        ),
    ],
    ids=["ConstantOfShape", "Expand", "Tile", "Pad", "doubling"],
)
def test_a_small_file_that_asks_for_hundreds_of_gigabytes_gets_none(tmp_path, nodes, tensors):
    adding = [make_node("ReduceSum", ["large"], ["sum"], keepdims=0), make_node("Add", ["mean", "sum"], ["logits"])]
    path = write(tmp_path / "model.onnx", [*nodes, *adding], tensors, "logits")
    assert path.stat().st_size < 2000
    started = time.monotonic()
    with pytest.raises(TaggerError, match=TOO_LARGE):
        OnnxNetwork(path, threads=1)(PICTURES)
    assert time.monotonic() - started < 20


def test_pictures_that_need_too_much_memory_together_are_run_a_few_at_a_time(tmp_path):
    # 16 pictures x 2²⁵ float32 are 2 GiB; one is 128 MiB.
    grown = [
        make_node("Unsqueeze", ["mean", "last"], ["column"]),
        make_node("Expand", ["column", "sizes"], ["large"]),
        make_node("ReduceMax", ["large", "last"], ["logits"], keepdims=0),
    ]
    tensors = [whole_numbers("last", 2), whole_numbers("sizes", 1, 1, 2**25 // 3)]
    network = OnnxNetwork(write(tmp_path / "model.onnx", grown, tensors, "logits"), threads=1)
    pictures = np.arange(16, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 3), np.uint8)
    (logits,) = network(pictures)
    np.testing.assert_array_equal(logits, np.arange(16, dtype=np.float32)[:, None] * np.ones((1, 3), np.float32))


def endless_loop() -> onnx.NodeProto:
    body = make_graph(
        [make_node("Identity", ["go"], ["go_on"]), make_node("Identity", ["x"], ["y"])],
        "body",
        [
            make_tensor_value_info("i", TensorProto.INT64, []),
            make_tensor_value_info("go", TensorProto.BOOL, []),
            make_tensor_value_info("x", TensorProto.FLOAT, None),
        ],
        [make_tensor_value_info("go_on", TensorProto.BOOL, []), make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return make_node("Loop", ["", "yes", "mean"], ["logits"], body=body)


@pytest.mark.parametrize(
    ("nodes", "tensors", "options", "message"),
    [
        ([endless_loop()], [make_tensor("yes", TensorProto.BOOL, [], [True])], {}, "has a loop or a branch"),
        (
            [make_node("Tokenizer", ["mean"], ["logits"], domain="com.microsoft")],
            [],
            {},
            "uses 'Tokenizer' of 'com.micr",
        ),
        ([make_node("SequenceConstruct", ["mean"], ["logits"])], [], {}, "uses 'SequenceConstruct'"),
        (
            [make_node("Identity", ["text"], ["logits"])],
            [make_tensor("text", TensorProto.STRING, [1], [b"a"])],
            {},
            "holds text in tensor 'text'",
        ),
        (
            [make_node("Reshape", ["mean", "shape"], ["logits"])],
            [],
            {},
            "could give 'logits' any number of dimensions",
        ),
        (
            [make_node("Pad", ["axes", "pads"], ["shape"]), make_node("ConstantOfShape", ["shape"], ["logits"])],
            [whole_numbers("pads", 0, 2**40)],
            {},
            "could give 'logits' any number of dimensions",
        ),
        (
            [make_node("Double", ["mean"], ["logits"])],
            [],
            {
                "functions": [
                    make_function(
                        "", "Double", ["x"], ["y"], [make_node("Add", ["x", "x"], ["y"])], [make_opsetid("", 20)]
                    )
                ]
            },
            "holds functions",
        ),
    ],
)
def test_what_no_tagger_needs_is_refused_by_name(tmp_path, nodes, tensors, options, message):
    path = write(tmp_path / "model.onnx", nodes, tensors, "logits", **options)
    with pytest.raises(TaggerError, match=message):
        OnnxNetwork(path)


def outside(tensor: onnx.TensorProto, location: str) -> onnx.TensorProto:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.ClearField("float_data")
    copy.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "4")):
        copy.external_data.add(key=key, value=value)
    return copy


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret.bin", "weights.bin", "*/_ORT_MEM_ADDR_/*"])
def test_weights_in_another_file_are_refused_by_us_first(tmp_path, monkeypatch, location):
    import onnxruntime

    (tmp_path / "weights.bin").write_bytes(b"\0" * 4)
    weight = outside(make_tensor("w", TensorProto.FLOAT, [1], [1.0]), location)
    path = write(tmp_path / "model.onnx", [make_node("Mul", ["mean", "w"], ["logits"])], [weight], "logits")
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *arguments, **options: pytest.fail("it was loaded"))
    with pytest.raises(TaggerError, match="reads tensor 'w' from another file"):
        OnnxNetwork(path)


def test_a_constant_in_a_node_may_not_be_in_another_file_either(tmp_path):
    constant = make_node("Constant", [], ["w"], value=outside(make_tensor("w", TensorProto.FLOAT, [1], [1.0]), "x.bin"))
    path = write(tmp_path / "model.onnx", [constant, make_node("Mul", ["mean", "w"], ["logits"])], [], "logits")
    with pytest.raises(TaggerError, match="from another file"):
        OnnxNetwork(path)


def test_a_tensor_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    weight = make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    weight.dims[:] = [2**16, 2**20]
    path = write(tmp_path / "model.onnx", [make_node("Mul", ["mean", "w"], ["logits"])], [weight], "logits")
    with pytest.raises(TaggerError, match="claims 68,719,476,736 values for tensor 'w'"):
        OnnxNetwork(path)


def test_a_part_that_is_given_twice_is_looked_at_in_both_places(tmp_path):
    """Readers of Protocol Buffers merge two graphs into one, so the second may not hide anything."""
    weight = outside(make_tensor("w", TensorProto.FLOAT, [1], [1.0]), "/etc/passwd")
    path = write(tmp_path / "model.onnx", [])
    second = onnx.ModelProto()
    second.graph.initializer.append(weight)
    path.write_bytes(path.read_bytes() + second.SerializeToString())
    with pytest.raises(TaggerError, match="from another file"):
        OnnxNetwork(path)


@pytest.mark.parametrize(
    ("nodes", "tensors", "kind", "found"),
    [
        ([make_node("Cast", ["mean"], ["logits"], to=TensorProto.STRING)], [], TensorProto.STRING, "object"),
        ([make_node("Cast", ["mean"], ["logits"], to=TensorProto.DOUBLE)], [], TensorProto.DOUBLE, "float64"),
        ([make_node("ReduceMean", ["mean"], ["logits"], keepdims=0)], [], TensorProto.FLOAT, r"float32 \(\)"),
        ([make_node("Concat", ["mean", "mean"], ["logits"], axis=0)], [], TensorProto.FLOAT, r"float32 \(4, 3\)"),
    ],
    ids=["text", "double", "no rows", "too many rows"],
)
def test_outputs_that_are_no_logits_are_refused(tmp_path, nodes, tensors, kind, found):
    network = OnnxNetwork(write(tmp_path / "model.onnx", nodes, tensors, "logits", kind))
    with pytest.raises(TaggerError, match=f"gives {found}.* for 2 pictures; expected float32 with a row for each"):
        network(PICTURES)


def test_messages_are_read_as_onnx_reads_them():
    path = ready_folder() / "model.onnx"
    graph = Message(memoryview(path.read_bytes())).message(7)
    theirs = onnx.load(str(path)).graph
    assert [node.text(4) for node in graph.messages(1)] == [node.op_type for node in theirs.node]
    assert [node.texts(1) for node in graph.messages(1)] == [list(node.input) for node in theirs.node]
    assert [tensor.numbers(1) for tensor in graph.messages(5)] == [list(tensor.dims) for tensor in theirs.initializer]


@pytest.mark.parametrize("content", [b"\xff" * 20, b"\x08", b"\x0a\x7f", b"\x0b", b"\x09abc"])
def test_bytes_that_are_no_message_are_refused(content):
    with pytest.raises(ValueError, match=r"field|number"):
        Message(memoryview(content))


def test_ctrl_c_stops_a_network_that_would_run_for_hours(tmp_path):
    chain = [make_node("Expand", ["one", "sizes"], ["x0"])]
    chain += [make_node("MatMul", [f"x{step}", "x0"], [f"x{step + 1}"]) for step in range(5000)]
    chain += [make_node("ReduceSum", ["x5000"], ["sum"], keepdims=0), make_node("Add", ["mean", "sum"], ["logits"])]
    path = write(tmp_path / "model.onnx", chain, [whole_numbers("sizes", 1500, 1500)], "logits")
    script = (
        "import numpy as np; from pathlib import Path; from tagloom.tagger.onnx_runner import OnnxNetwork\n"
        f"network = OnnxNetwork(Path({str(path)!r}), threads=1)\nprint('ready', flush=True)\n"
        "try:\n    network(np.zeros((1, 8, 8, 3), np.uint8))\n"
        "except KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "stopped\n"
        assert time.monotonic() - started < 15
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("given", ["none", "0", "-1", "nan", "1e9"])
def test_an_amount_of_memory_that_cannot_be_meant_is_refused(monkeypatch, given):
    monkeypatch.setenv("TAGLOOM_NETWORK_GIB", given)
    with pytest.raises(TaggerError, match="TAGLOOM_NETWORK_GIB is"):
        network_memory()
    monkeypatch.setenv("TAGLOOM_NETWORK_GIB", "8")
    assert network_memory() == 8 * 2**30
