"""Label Studio's ML backend, asked with the bodies that Label Studio sends."""

import base64
from pathlib import Path

import pytest
from serving import serving

from tagloom.serve.label_studio import TaskFiles, model_version, read_config, suggestion
from tagloom.serve.limits import Refusal

CONFIG = """<View>
  <Image name="image" value="$photo" zoom="true"/>
  <!-- what is there -->
  <Choices name="things" toName="image" choice="multiple" showInline="true">
    <Choice value="Dog"/><Choice value="cat"/><Choice value="tree"/><Choice value="airship"/>
  </Choices>
</View>"""


def request(*addresses: str, config: str = CONFIG) -> dict:
    """What Label Studio posts to /predict, with all of its fields."""
    tasks = [
        {
            "id": number,
            "data": {"photo": address},
            "meta": {},
            "created_at": "2026-11-02T09:15:31.120034Z",
            "updated_at": "2026-11-02T09:15:31.120047Z",
            "is_labeled": False,
            "overlap": 1,
            "inner_id": number,
            "total_annotations": 0,
            "cancelled_annotations": 0,
            "total_predictions": 0,
            "project": 3,
            "file_upload": 12,
            "annotations": [],
            "predictions": [],
        }
        for number, address in enumerate(addresses, 1)
    ]
    return {
        "tasks": tasks,
        "model_version": None,
        "project": "3.1793610931",
        "label_config": config,
        "params": {"login": None, "password": None, "context": None},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory, jpegs) -> Path:
    """Label Studio's media folder, with a secret beside it."""
    above = tmp_path_factory.mktemp("label-studio")
    (above / "secret.jpg").write_bytes(jpegs[0])
    media = above / "media"
    (media / "upload" / "3").mkdir(parents=True)
    for number, data in enumerate(jpegs):
        (media / "upload" / "3" / f"ab12-photo {number}.jpg").write_bytes(data)
    (media / "link.jpg").symlink_to(above / "secret.jpg")
    (media / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing more")
    return media


@pytest.fixture(scope="module")
def backend(tiny, worded, folder):
    with serving({"tiny": tiny, "words": worded}, label_studio_files=TaskFiles(folder)) as client:
        yield client


def test_a_project_is_connected(backend, tiny):
    assert backend.get("/health").json["status"] == "UP"
    body = {"project": "3.1793610931", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "0123"}
    answer = backend.post_json("/setup", body)
    assert answer.code == 200
    assert answer.json["model_version"].startswith("tiny ")


def test_tasks_get_the_tags_that_are_choices(backend, tiny, jpegs):
    addresses = [f"/data/upload/3/ab12-photo%20{number}.jpg" for number in range(len(jpegs))]
    addresses[1] = "http://localhost:8080" + addresses[1]
    addresses[2] = "/data/local-files/?d=upload/3/ab12-photo%202.jpg"
    answer = backend.post_json("/predict", request(*addresses)).json
    assert len(answer["results"]) == len(jpegs)
    some = False
    for result, tags in zip(answer["results"], tiny.predict(jpegs), strict=True):
        expected = [{"dog": "Dog"}.get(tag.label, tag.label) for tag in tags if tag.label in ("dog", "cat", "tree")]
        some = some or bool(expected)
        found = result["result"]
        assert [choice for region in found for choice in region["value"]["choices"]] == expected
        for region in found:
            assert (region["from_name"], region["to_name"], region["type"]) == ("things", "image", "choices")
        assert result["score"] == pytest.approx(
            min((tag.score for tag in tags if tag.label in ("dog", "cat", "tree")), default=0), abs=2e-6
        )
    assert some, "this test would pass without any tag"


def test_a_tagger_of_words_suggests_choices_that_it_was_not_trained_on(backend, worded, jpeg):
    config = CONFIG.replace("airship", "wedding").replace("Dog", "golden heart").replace('<Choice value="cat"/>', "")
    address = f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
    answer = backend.post_json("/predict?model=words", request(address, config=config)).json
    expected = [tag.label for tag in worded.predict(jpeg, labels=["golden heart", "tree", "wedding"])[0]]
    (result,) = answer["results"]
    assert [choice for region in result["result"] for choice in region["value"]["choices"]] == expected
    assert result["model_version"].startswith("words ")


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com/photo.jpg",
        "s3://bucket/photo.jpg",
        "file:///etc/passwd",
        "/etc/passwd",
        "/data/upload/../../secret.jpg",
        "/data/upload/%2e%2e/%2e%2e/secret.jpg",
        "/data/local-files/?d=../secret.jpg",
        "/data/local-files/?d=/etc/passwd",
        "/data/local-files/?d=link.jpg",
        "/data/local-files/?d=upload/3/missing.jpg",
        "/data/upload/%00",
        "data:image/jpeg;base64,???",
        "data:text/plain,hello",
    ],
)
def test_addresses_outside_the_folder_are_refused(backend, address):
    answer = backend.post_json("/predict", request(address))
    assert answer.code == 422, answer.body


def test_without_a_folder_no_file_is_read(client):
    answer = client.post_json("/predict", request("/data/upload/3/photo.jpg"))
    assert answer.code == 422
    assert "--label-studio-files" in answer.json["error"]


def test_a_broken_picture_gets_no_suggestion_and_does_not_stop_the_others(backend, jpegs):
    answer = backend.post_json(
        "/predict", request("/data/local-files/?d=broken.jpg", "/data/upload/3/ab12-photo%200.jpg")
    )
    assert answer.code == 200
    assert answer.json["results"][0] == {"result": [], "score": 0.0, "model_version": answer.json["model_version"]}


@pytest.mark.parametrize(
    "config",
    [
        None,
        7,
        "<View",
        "<View/>",
        '<View><Text name="t" value="$t"/><Choices name="c" toName="t"/></View>',
        '<!DOCTYPE v [<!ENTITY a "aaaa">]><View>&a;</View>',
        "<View>" * 100_000,
    ],
)
def test_a_configuration_without_choices_about_an_image_is_refused(config):
    with pytest.raises(Refusal) as refused:
        read_config(config)
    assert refused.value.code == 422


def test_of_a_single_choice_only_the_best_is_suggested():
    question = read_config(CONFIG.replace('choice="multiple"', 'choice="single"'))
    found = suggestion(question, {"car": 0.9, "tree": 0.8, "dog": 0.7}, "v")
    assert found["result"][0]["value"] == {"choices": ["tree"]}
    assert found["score"] == 0.8


def test_the_version_names_the_tagger(client):
    assert model_version(client.app.state.service.taggers["tiny"]).startswith("tiny (tagloom ")
