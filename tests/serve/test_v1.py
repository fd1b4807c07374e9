"""/v1: the answers are those of the tagger itself."""

import base64
import io
import threading

import numpy as np
import pytest
from PIL import Image
from serving import Client, HeldTagger, encoded, serving, wait_until

from tagloom.serve.limits import Limits


def as_pairs(tags) -> list[tuple[str, float]]:
    return [(tag["label"], pytest.approx(tag["score"], abs=2e-6)) for tag in tags]


def test_the_bytes_of_a_picture_get_the_tags_of_the_tagger(client: Client, tiny, jpeg):
    answer = client.post("/v1/predict", jpeg, Content_Type="image/jpeg")
    assert answer.code == 200
    assert answer.json["model"] == "tiny"
    (result,) = answer.json["results"]
    assert list(tiny.predict(jpeg)[0]) == as_pairs(result["tags"])


def test_curl_which_calls_every_body_a_form_is_answered(client: Client, jpeg):
    answer = client.post("/v1/predict", jpeg, Content_Type="application/x-www-form-urlencoded")
    assert answer.code == 200


def test_a_form_of_many_pictures_gets_a_result_for_each_in_order(client: Client, tiny, jpegs):
    answer = client.post_form("/v1/predict?top_k=2", {f"{number}.jpg": data for number, data in enumerate(jpegs)})
    results = answer.json["results"]
    assert [result["name"] for result in results] == [f"{number}.jpg" for number in range(len(jpegs))]
    for result, tags in zip(results, tiny.predict(jpegs, top_k=2), strict=True):
        assert list(tags) == as_pairs(result["tags"])


def test_a_broken_picture_among_others_has_an_error_of_its_own(client: Client, jpeg):
    answer = client.post_form("/v1/predict", {"good.jpg": jpeg, "bad.jpg": jpeg[:200], "text.txt": b"hello"})
    assert answer.code == 200
    good, bad, text = answer.json["results"]
    assert "tags" in good
    assert bad["error"]["code"] == 422
    assert text["error"]["code"] == 415
    assert text["error"]["message"].startswith("text.txt: ")


def test_options_are_those_of_predict(client: Client, tiny, jpeg):
    answer = client.post("/v1/predict?threshold=0.1&top_k=3&scores=true", jpeg).json["results"][0]
    assert list(tiny.predict(jpeg, threshold=0.1, top_k=3)[0]) == as_pairs(answer["tags"])
    assert list(answer["scores"]) == list(tiny.classes)
    np.testing.assert_allclose(list(answer["scores"].values()), tiny.scores(jpeg)[0], atol=2e-6)


def test_labels_of_the_client_are_scored_by_a_tagger_of_words(client: Client, worded, jpeg):
    answer = client.post("/v1/predict?model=words&labels=wedding&labels=golden%20heart&top_k=2", jpeg)
    assert list(worded.predict(jpeg, labels=["wedding", "golden heart"], top_k=2)[0]) == as_pairs(
        answer.json["results"][0]["tags"]
    )


def test_clients_that_type_different_labels_at_once_get_their_own(client: Client, worded, jpeg):
    asked = [["wedding"], ["golden", "heart"], ["red", "car", "tree"], ["surfboard"]] * 4
    expected = [worded.scores(jpeg, labels=labels)[0] for labels in asked]
    answers: list = [None] * len(asked)

    def post(index: int) -> None:
        query = "&".join(f"labels={label}" for label in asked[index])
        answers[index] = client.post(f"/v1/predict?model=words&scores=true&{query}", jpeg).json["results"][0]["scores"]

    threads = [threading.Thread(target=post, args=(index,)) for index in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for labels, scores, answer in zip(asked, expected, answers, strict=True):
        assert list(answer) == labels
        np.testing.assert_allclose(list(answer.values()), scores, atol=2e-6)


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ("model=nobody", 404, "Known: tiny, words"),
        ("labels=wedding", 422, "knows its 5 labels only"),
        ("model=words&labels=%20", 422, "1 to 200 characters"),
        ("model=words&labels=xqzzy", 422, "xqzzy"),
        ("threshold=2", 422, "threshold"),
        ("top_k=0", 422, "top_k"),
    ],
)
def test_what_cannot_be_answered_is_explained(client: Client, jpeg, query, code, says):
    answer = client.post(f"/v1/predict?{query}", jpeg)
    assert answer.code == code
    assert says in answer.json["error"]


def test_heat_maps_are_those_of_the_tagger_in_the_shape_of_the_picture(client: Client, worded, jpeg):
    labels = worded.classes[:3]
    query = "&".join(f"labels={label.replace(' ', '%20')}" for label in labels)
    answer = client.post(f"/v1/explain?model=words&{query}", jpeg).json
    expected = worded.explain(jpeg, labels)
    assert expected.maps.max() == 1
    assert answer["method"] == expected.method == "attention"
    assert tuple(heat["label"] for heat in answer["labels"]) == labels
    for heat, grid, whole in zip(answer["labels"], expected.grid, expected.maps, strict=True):
        np.testing.assert_allclose(heat["grid"], grid, atol=1e-4)
        image = Image.open(io.BytesIO(base64.b64decode(heat["map"])))
        assert (image.mode, image.size) == ("L", (48, 36))
        np.testing.assert_allclose(np.asarray(image) / 255, whole, atol=0.003)


def test_without_labels_the_tags_found_are_explained(client: Client, tiny, jpeg):
    found = [tag.label for tag in tiny.predict(jpeg)[0]]
    assert [heat["label"] for heat in client.post("/v1/explain", jpeg).json["labels"]] == found


def test_heat_maps_of_large_pictures_are_sent_small(client: Client):
    answer = client.post("/v1/explain?labels=dog", encoded(0, (1200, 600))).json
    assert Image.open(io.BytesIO(base64.b64decode(answer["labels"][0]["map"]))).size == (320, 160)


@pytest.mark.parametrize(
    ("query", "code"), [("labels=unicorn", 422), ("method=grad-cam%2B%2B", 422), ("model=nobody", 404)]
)
def test_maps_that_cannot_be_made_are_refused(client: Client, jpeg, query, code):
    assert client.post(f"/v1/explain?{query}", jpeg).code == code


def test_a_label_that_was_typed_is_explained_by_a_tagger_of_words(client: Client, jpeg):
    answer = client.post("/v1/explain?model=words&labels=wedding", jpeg)
    assert answer.json["labels"][0]["label"] == "wedding"


def test_models_lists_the_taggers_that_were_named_at_the_start(client: Client, tiny):
    first, second = client.get("/v1/models").json["models"]
    assert (first["name"], second["name"]) == ("tiny", "words")
    assert first["classes"] == list(tiny.classes)
    np.testing.assert_allclose(first["thresholds"], tiny.spec.threshold_row(), atol=1e-6)
    assert (first["takes_words"], second["takes_words"]) == (False, True)
    assert first["methods"] == ["cam", "eigen-cam"]


def test_requests_of_a_moment_are_computed_together(tiny, jpegs):
    held = HeldTagger(tiny)
    with serving({"held": held}, limits=Limits(window_seconds=2)) as client:
        threads = [threading.Thread(target=client.post, args=("/v1/predict", data)) for data in jpegs]
        for thread in threads:
            thread.start()
        wait_until(lambda: held.pictures == len(jpegs))
        held.go.set()
        for thread in threads:
            thread.join()
        assert held.begun == 1
        text = client.get("/metrics").body.decode()
    assert 'tagloom_request_batch_size_sum{kind="predict",model="held"} 6.0' in text
    assert 'tagloom_request_batch_size_count{kind="predict",model="held"} 1.0' in text


def test_metrics_count_by_endpoint_and_code(client: Client, jpeg):
    def figures() -> dict[str, float]:
        lines = client.get("/metrics").body.decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    before = figures()
    client.post("/v1/predict", jpeg)
    client.post("/v1/predict", b"no picture")
    client.get("/made/up/by/a/client")
    after = figures()

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown('tagloom_request_total{code="200",endpoint="/v1/predict"}') == 1
    assert grown('tagloom_request_total{code="415",endpoint="/v1/predict"}') == 1
    assert grown('tagloom_request_total{code="404",endpoint="other"}') == 1
    assert grown('tagloom_request_duration_seconds_count{code="200",endpoint="/v1/predict"}') == 1
    assert after['tagloom_request_in_progress{endpoint="/v1/predict"}'] == 0
    assert after['tagloom_request_in_progress{endpoint="/metrics"}'] == 1
