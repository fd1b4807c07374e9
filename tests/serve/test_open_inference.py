"""The Open Inference Protocol, asked by Triton's own client and by hand."""

import base64

import numpy as np
import pytest
from serving import Client


@pytest.fixture
def triton(client: Client):
    http = pytest.importorskip("tritonclient.http", reason="pip install 'tritonclient[http]'")
    connection = http.InferenceServerClient(f"127.0.0.1:{client.port}")
    yield http, connection
    connection.close()


def test_tritons_client_finds_the_server_and_its_taggers(triton, tiny):
    _, connection = triton
    assert connection.is_server_live()
    assert connection.is_server_ready()
    assert connection.is_model_ready("tiny")
    assert not connection.is_model_ready("nobody")
    assert connection.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    about = connection.get_model_metadata("tiny")
    assert about["outputs"][0] == {"name": "scores", "datatype": "FP32", "shape": [-1, len(tiny.classes)]}


@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client_gets_the_scores_of_encoded_pictures(triton, tiny, jpegs, binary):
    http, connection = triton
    given = http.InferInput("image", [len(jpegs)], "BYTES")
    data = jpegs if binary else [base64.b64encode(data) for data in jpegs]
    given.set_data_from_numpy(np.array(data, dtype=object), binary_data=binary)
    wanted = [http.InferRequestedOutput(name, binary_data=binary) for name in ("scores", "labels")]
    found = connection.infer("tiny", [given], outputs=wanted, request_id="7")
    np.testing.assert_allclose(found.as_numpy("scores"), tiny.scores(jpegs), atol=2e-6)
    labels = [name.decode() if isinstance(name, bytes) else name for name in found.as_numpy("labels")]
    assert labels == list(tiny.classes)
    assert found.get_response()["id"] == "7"


def test_tritons_client_gets_the_scores_of_pixels(triton, tiny):
    http, connection = triton
    pixels = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    given = http.InferInput("pixels", list(pixels.shape), "UINT8")
    given.set_data_from_numpy(pixels)
    found = connection.infer("tiny", [given])
    np.testing.assert_allclose(found.as_numpy("scores"), tiny.scores(list(pixels)), atol=2e-6)


def test_plain_json_is_enough(client: Client, tiny):
    pixels = np.random.default_rng(1).integers(0, 256, (1, 4, 5, 3), dtype=np.uint8)
    tensor = {"name": "pixels", "datatype": "UINT8", "shape": [1, 4, 5, 3], "data": pixels.ravel().tolist()}
    answer = client.post_json("/v2/models/tiny/infer", {"inputs": [tensor], "outputs": [{"name": "scores"}]})
    (output,) = answer.json["outputs"]
    np.testing.assert_allclose(output["data"], tiny.scores(list(pixels))[0], atol=2e-6)


def tensor(**changes):
    return {"name": "pixels", "datatype": "UINT8", "shape": [1, 1, 2, 3], "data": [0, 1, 2, 3, 4, 5]} | changes


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({}, 400),
        ({"inputs": []}, 400),
        ({"inputs": [tensor(), tensor()]}, 400),
        ({"inputs": [tensor(name="other")]}, 400),
        ({"inputs": [tensor(datatype="FP32")]}, 400),
        ({"inputs": [tensor(shape=[1, 1, 3, 3])]}, 400),
        ({"inputs": [tensor(shape=[0, 1, 2, 3])]}, 400),
        ({"inputs": [tensor(shape=[True, 1, 2, 3])]}, 400),
        ({"inputs": [tensor(shape=[2**40, 1, 2, 3])]}, 413),
        ({"inputs": [tensor(shape=[1, 2**40, 2, 3])]}, 413),
        ({"inputs": [tensor(data=[0, 1, 2, 3, 4, 256])]}, 400),
        ({"inputs": [tensor(data=[0, 1, 2, 3, 4, 0.5])]}, 400),
        ({"inputs": [tensor(data=[[0], [1, 2]])]}, 400),
        ({"inputs": [tensor(data="text")]}, 400),
        ({"inputs": [tensor(parameters={"binary_data_size": 6})]}, 400),
        ({"inputs": [tensor()], "outputs": [{"name": "logits"}]}, 400),
        ({"inputs": [tensor(name="image", datatype="BYTES", shape=[1], data=["not base64!"])]}, 400),
        ({"inputs": [tensor(name="image", datatype="BYTES", shape=[1], data=["aGVsbG8="])]}, 415),
        ({"inputs": [tensor(name="image", datatype="BYTES", shape=[2], data=["aGVsbG8="])]}, 400),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_a_reason(client: Client, content, code):
    answer = client.post_json("/v2/models/tiny/infer", content)
    assert answer.code == code, answer.body
    assert answer.json["error"]


@pytest.mark.parametrize("length", ["-1", "1000000", "x", "1"])
def test_a_wrong_length_of_the_json_is_refused(client: Client, length):
    answer = client.post("/v2/models/tiny/infer", b'{"inputs": []}', Inference_Header_Content_Length=length)
    assert answer.code == 400
