"""Exported networks run in ONNX Runtime, in as many threads as we may use."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tagloom.cores import usable_cores
from tagloom.errors import TaggerError
from tagloom.ready import ready_folder
from tagloom.tagger import onnx_runner
from tagloom.tagger.onnx_outputs import first_output_alone
from tagloom.tagger.onnx_runner import OnnxNetwork

READY = ready_folder() / "model.onnx"  # it has further outputs


@pytest.fixture(scope="module")
def network(finished_run) -> OnnxNetwork:
    return OnnxNetwork(finished_run / "model.onnx", threads=1)


def pictures(count: int, size: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def test_any_number_of_pictures_gives_as_many_rows(network):
    for count in (1, 2, 7, 33):
        logits = network(pictures(count))[0]
        assert logits.shape == (count, 24)
        assert logits.dtype == np.float32


def test_a_picture_scores_the_same_alone_and_in_company(network):
    together = network(pictures(5))[0]
    for place in range(5):
        alone = network(pictures(5)[place : place + 1])[0]
        np.testing.assert_allclose(alone[0], together[place], rtol=1e-4, atol=1e-4)


def test_memory_that_is_not_contiguous_is_read_rightly(network):
    mirrored = pictures(2)[:, :, ::-1]
    np.testing.assert_allclose(network(mirrored)[0], network(np.ascontiguousarray(mirrored))[0])


@pytest.mark.parametrize("given", [pictures(1, 32), pictures(1).astype(np.float32), pictures(1)[0]])
def test_pictures_of_another_form_are_refused_by_our_own_error(network, given):
    with pytest.raises(TaggerError, match=r"model\.onnx: cannot be run"):
        network(given)


@pytest.mark.parametrize("content", [b"", b"no network", None])
def test_a_damaged_file_is_refused_with_its_name(finished_run, tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes((finished_run / "model.onnx").read_bytes()[:5000] if content is None else content)
    with pytest.raises(TaggerError, match=r"model\.onnx: cannot be run.*delete it to use torch"):
        OnnxNetwork(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TaggerError, match="cannot be run"):
        OnnxNetwork(tmp_path / "model.onnx")


def test_cores_are_those_we_may_use_or_were_told(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usable_cores() == 3
    for nothing in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_threads_that_call_it_at_once_get_their_own_results(network):
    alone = [network(pictures(4)[place : place + 1])[0] for place in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            together = list(pool.map(lambda place: network(pictures(4)[place : place + 1])[0], range(4)))
            np.testing.assert_array_equal(together, alone)


def test_calls_that_need_too_much_memory_together_run_one_after_the_other(network, monkeypatch):
    at_work = 0
    most = []
    run = network._run

    def too_little_for_two(*given):
        nonlocal at_work
        at_work += 1
        try:
            time.sleep(0.02)
            most.append(at_work)
            if at_work > 1:
                raise MemoryError
            return run(*given)
        finally:
            at_work -= 1

    monkeypatch.setattr(network, "_run", too_little_for_two)
    monkeypatch.setattr(network, "_turns", onnx_runner._Turns())
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda place: network(pictures(8)[place : place + 1])[0], range(8)))
    assert np.concatenate(results).shape == (8, 24)
    assert network._most is None, "no picture was too large by itself"
    assert max(most) > 1
    assert most[-4:] == [1] * 4


def test_further_outputs_are_left_out_until_one_is_asked_for():
    whole = OnnxNetwork(READY, threads=1)
    network = OnnxNetwork(READY, threads=1, first_only=True)
    assert network.outputs == whole.outputs
    assert len(network.outputs) > 1
    (logits,) = network(pictures(2, 288), fetch=network.outputs[:1])
    assert [value.name for value in network._session.get_outputs()] == ["logits"]
    assert network._whole is None
    wanted = whole(pictures(2, 288))
    np.testing.assert_allclose(logits, wanted[0], rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(network(pictures(2, 288)), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_file_without_its_further_outputs_keeps_what_the_first_needs_and_nothing_else():
    onnx = pytest.importorskip("onnx")
    content, names = first_output_alone(READY)
    model, whole = onnx.ModelProto.FromString(content), onnx.load(str(READY))
    assert names == tuple(output.name for output in whole.graph.output)
    assert [output.name for output in model.graph.output] == ["logits"]
    used = {name for node in model.graph.node for name in node.input} | {"logits"}
    assert all(used & set(node.output) for node in model.graph.node), "no node is left over"
    assert len(model.graph.node) < len(whole.graph.node)
    assert [node for node in whole.graph.node if node in model.graph.node] == list(model.graph.node)
    assert model.graph.initializer == whole.graph.initializer
    onnx.checker.check_model(model)


def test_only_the_threads_that_are_named_are_stopped(network, monkeypatch):
    started, outcome = threading.Barrier(3), {}

    class Session:
        def run(self, names, feeds, options):
            started.wait(10)
            deadline = time.monotonic() + 1
            while not options.terminate and time.monotonic() < deadline:
                time.sleep(0.005)
            if options.terminate:
                raise RuntimeError("Exiting due to terminate flag being set to true.")
            return [np.zeros((1, 24), np.float32)]

    monkeypatch.setattr(network, "_session", Session())

    def call(name: str) -> None:
        try:
            network(pictures(1), fetch=network.outputs[:1])
            outcome[name] = "done"
        except TaggerError:
            outcome[name] = "stopped"

    threads = [threading.Thread(target=call, args=[name]) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    started.wait(10)
    network.stop({threads[0].ident})
    for thread in threads:
        thread.join(10)
    assert outcome == {"first": "stopped", "second": "done"}
