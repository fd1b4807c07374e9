"""Heat maps: in the picture's geometry, the same with and without torch, and pointing at the thing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

import onnx
import torch

import tagloom
from tagloom.data.scenes import SceneSettings, draw_scene
from tagloom.errors import ImageError, TaggerError
from tagloom.predict.explanation import Explanation, normalised
from tagloom.predict.heat_maps import eigen_map
from tagloom.tagger.onnx_runner import OnnxNetwork


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    return draw_scene(seed=3, index=1, settings=SceneSettings(size=120))[0].resize((180, 120))


@pytest.fixture(scope="module")
def mapped_run(tmp_path_factory) -> Path:
    """A tagger with random weights and a map of 4 x 4."""
    from tagloom.models.network import build_network, export_network, save_weights
    from tagloom.recipe.pictures import Preprocess
    from tagloom.tagger.spec import TaggerSpec, write_spec

    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("runs") / "mapped"
    out.mkdir()
    names = {"backbone": "test_efficientnet", "head": "gap", "head_options": {}}
    network = build_network(**names, weights="none", classes=5, size=128, frozen=True).eval()
    torch.nn.init.normal_(network.head.linear.weight, std=2.0)
    save_weights(network, out)
    export_network(network, out / "model.onnx", size=128)
    spec = TaggerSpec(("cat", "dog", "sofa", "car", "tree"), Preprocess(size=128), version="0", **names)
    write_spec(spec, out)
    return out


def explained(grid, size, box) -> Explanation:
    grid = np.asarray(grid, np.float32)[None]
    return Explanation(("thing",), np.ones(1, np.float32), "cam", grid, size, box, Image.new("RGB", size))


def test_labels_scores_and_maps_of_the_tags_found(mapped_run, picture) -> None:
    tagger = tagloom.load(mapped_run)
    found = tagger.explain(picture)
    tags = tagger.predict(picture)[0]
    assert 0 < len(tags) < 5
    assert found.labels == tuple(tag.label for tag in tags)
    np.testing.assert_allclose(found.scores, [tag.score for tag in tags], rtol=1e-6)
    assert found.method == "cam"
    assert found.grid.shape == (len(tags), 4, 4)
    assert found.maps.shape == (len(tags), 120, 180)
    assert found.grid.max() == 1
    assert found.grid.min() == 0


def test_labels_can_be_named_and_keep_their_order(mapped_run, picture) -> None:
    tagger = tagloom.load(mapped_run)
    found = tagger.explain(picture, ["tree", "cat", "tree"])
    assert found.labels == ("tree", "cat")
    np.testing.assert_allclose(found.scores, tagger.scores(picture)[0][[4, 0]])


@pytest.mark.parametrize("method", ["cam", "eigen-cam"])
def test_onnx_runtime_and_torch_show_the_same(mapped_run, picture, method, tmp_path) -> None:
    exported = tagloom.load(mapped_run)
    shutil.copytree(mapped_run, tmp_path / "run")
    (tmp_path / "run" / "model.onnx").unlink()
    by_torch = tagloom.load(tmp_path / "run")
    assert (exported.engine, by_torch.engine) == ("onnx", "torch")
    ours, theirs = (tagger.explain(picture, ["dog", "car"], method) for tagger in (exported, by_torch))
    np.testing.assert_allclose(ours.grid, theirs.grid, atol=1e-3)


def test_every_source_of_a_picture_gives_the_same_maps(mapped_run, picture, tmp_path) -> None:
    tagger = tagloom.load(mapped_run)
    path = tmp_path / "a.png"
    picture.save(path)
    grids = [
        tagger.explain(source, ["cat"]).grid
        for source in (path, str(path), path.read_bytes(), picture, np.asarray(picture))
    ]
    for grid in grids[1:]:
        np.testing.assert_array_equal(grid, grids[0])
    with pytest.raises(ImageError):
        tagger.explain(b"no image", ["cat"])


def test_a_photograph_on_its_side_is_explained_upright(mapped_run, tmp_path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 30), "red").save(tmp_path / "a.jpg", exif=exif)
    assert tagloom.load(mapped_run).explain(tmp_path / "a.jpg", ["cat"]).maps.shape == (1, 60, 30)


def test_squeezing_is_undone() -> None:
    heat = explained([[1, 0], [0, 0]], (400, 100), (0, 0, 400, 100)).maps[0]
    assert heat.shape == (100, 400)
    assert heat[25, 100] == pytest.approx(1, abs=0.02)  # the middle of the first cell
    assert heat[75:, 300:].max() == 0


def test_cropping_is_undone_and_what_was_not_seen_is_cold() -> None:
    heat = explained(np.ones((2, 2)), (400, 100), (150, 0, 250, 100)).maps[0]
    assert heat[:, 150:250].min() == 1
    assert heat[:, :150].max() == heat[:, 250:].max() == 0
    half = explained(np.ones((2, 2)), (400, 100), (150, 0, 250, 100)).maps_at(200, 50)[0]
    assert half.shape == (50, 200)
    assert half[:, 75:125].min() == 1
    assert half.sum() == 50 * 50


def test_maps_rise_above_the_average_place_and_flat_ones_show_nothing() -> None:
    maps = normalised(np.array([[[0, 0], [0, 8]], [[5, 5], [5, 5]], [[-1, -2], [-3, -4]]], np.float32))
    np.testing.assert_array_equal(maps[0], [[0, 0], [0, 1]])
    assert not maps[1].any()
    np.testing.assert_allclose(maps[2], [[1, 1 / 3], [0, 0]])
    assert normalised(np.zeros((0, 2, 2), np.float32)).shape == (0, 2, 2)


@pytest.mark.parametrize("channels", [3, 40])
def test_eigen_map_is_the_first_principal_direction(channels: int) -> None:
    features = np.random.default_rng(0).normal(size=(channels, 4, 5)).astype(np.float32)
    places = features.reshape(channels, -1).T
    centred = places - places.mean(axis=0)
    expected = np.abs(centred @ np.linalg.svd(centred)[2][0])
    found = np.abs(eigen_map(features)).ravel()
    np.testing.assert_allclose(found / found.max(), expected / expected.max(), atol=1e-3)


def test_stages_and_gradients_look_at_other_maps(mapped_run, picture) -> None:
    tagger = tagloom.load(mapped_run)
    last = tagger.explain(picture, ["cat", "dog"], "grad-cam++")
    early = tagger.explain(picture, ["cat", "dog"], "grad-cam++", stage=1)
    assert early.grid.shape[1] > last.grid.shape[1]
    assert not np.allclose(last.grid[0], last.grid[1])
    eigen = tagger.explain(picture, ["cat", "dog"], stage=1)
    assert eigen.method == "eigen-cam"
    assert eigen.grid.shape == early.grid.shape
    np.testing.assert_array_equal(eigen.grid[0], eigen.grid[1])


def test_grad_cam_plus_plus_of_a_linear_head_is_its_closed_form(mapped_run, picture) -> None:
    from tagloom.data.transforms import prepare
    from tagloom.models.grad_cam import grad_cam_plus_plus
    from tagloom.models.network import load_network
    from tagloom.tagger.spec import read_spec

    spec = read_spec(mapped_run)
    network = load_network(mapped_run, spec)
    pixels = torch.from_numpy(prepare(picture, spec.preprocess)[None].copy())
    heat = grad_cam_plus_plus(network, pixels, [2])[0, 0]
    with torch.no_grad():
        activation = network.maps(pixels, ())[0][0]
    places = activation[0].numel()
    gradient = network.head.linear.weight[2].detach() / network.head.scales[0].deviation / places
    expected = torch.zeros_like(heat)
    for channel, slope in enumerate(gradient):
        below = 2 * slope**2 + slope**3 * activation[channel].sum()
        expected += places * slope**2 / below * slope.clamp_min(0) * activation[channel]
    torch.testing.assert_close(heat, expected.clamp_min(0), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "stage", "message"),
    [
        ("attention", None, "does not fit the head 'gap'. Use cam"),
        ("camm", None, "did you mean 'cam'"),
        ("cam", 2, "last map only"),
        ("eigen-cam", 99, "has the stages 1 to"),
    ],
)
def test_what_a_tagger_cannot_do_is_refused(mapped_run, picture, method, stage, message) -> None:
    with pytest.raises(TaggerError, match=message.replace("(", r"\(")):
        tagloom.load(mapped_run).explain(picture, ["cat"], method, stage=stage)


def test_an_unknown_label_is_refused_without_words(mapped_run, picture) -> None:
    with pytest.raises(TaggerError, match="knows its 5 labels only"):
        tagloom.load(mapped_run).explain(picture, ["zebra"])


def test_a_tagger_of_words_explains_any_label(word_run, picture) -> None:
    tagger = tagloom.load(word_run)
    found = tagger.explain(picture, ["wedding", "boat", "surfboard"])
    assert (found.method, found.grid.shape[0]) == ("attention", 3)
    np.testing.assert_allclose(found.scores, tagger.scores(picture, ["wedding", "boat", "surfboard"])[0], atol=1e-6)
    own = tagger.explain(picture, ["boat"])
    np.testing.assert_allclose(own.grid[0], found.grid[1], atol=1e-4)
    for method in ("eigen-cam", "grad-cam++"):
        assert tagger.explain(picture, ["wedding", "boat"], method).grid.shape[0] == 2


def test_a_file_from_before_names_the_command_that_helps(mapped_run, picture, tmp_path) -> None:
    old = tmp_path / "old"
    shutil.copytree(mapped_run, old)
    model = onnx.load(old / "model.onnx")
    del model.graph.output[1:]
    onnx.save(model, old / "model.onnx")
    with_weights = tagloom.load(old).explain(picture, ["cat"])  # torch does it
    np.testing.assert_allclose(with_weights.grid, tagloom.load(mapped_run).explain(picture, ["cat"]).grid, atol=1e-3)
    (old / "model.safetensors").unlink()
    with pytest.raises(TaggerError, match="tagloom export"):
        tagloom.load(old).explain(picture, ["cat"])
    assert tagloom.load(old).predict(picture)


def test_outputs_that_nobody_asks_for_are_not_computed(mapped_run, tmp_path) -> None:
    """Before the evidence stands a node that fails when it runs: logits come all the same."""
    pictures = np.zeros((1, 128, 128, 3), np.uint8)
    model = onnx.load(mapped_run / "model.onnx")
    for node in model.graph.node:
        node.output[:] = ["raw" if name == "evidence" else name for name in node.output]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([12345], np.int64), "impossible"))
    model.graph.node.append(onnx.helper.make_node("Reshape", ["raw", "impossible"], ["evidence"]))
    onnx.save(model, tmp_path / "broken.onnx")
    network = OnnxNetwork(tmp_path / "broken.onnx", first_only=True)
    logits = network(pictures, fetch=["logits"])[0]
    np.testing.assert_allclose(logits, OnnxNetwork(mapped_run / "model.onnx")(pictures)[0], atol=1e-6)
    with pytest.raises(TaggerError, match="cannot be run"):
        network(pictures, fetch=["evidence"])


def test_an_explanation_and_predictions_show_themselves_and_escape_names(mapped_run, picture, tmp_path) -> None:
    import json
    import pickle

    run = tmp_path / "run"
    shutil.copytree(mapped_run, run)
    spec = json.loads((run / "tagger.json").read_text())
    spec["classes"][0] = "<script>alert(1)</script>"
    (run / "tagger.json").write_text(json.dumps(spec))
    tagger = tagloom.load(run)
    found = tagger.explain(picture, [spec["classes"][0], "dog"])
    assert repr(found).startswith("Explanation(cam, ")
    predictions = tagger.predict([picture] * 8, threshold=0.0)
    assert len(predictions) == 8
    for page in (found._repr_html_(), predictions._repr_html_()):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert page.count("data:image/jpeg;base64,") >= 3
    assert "2 more pictures" in predictions._repr_html_()
    assert type(pickle.loads(pickle.dumps(predictions))) is list  # noqa: S301
    assert "No label" in tagger.predict(picture, threshold=1.0)._repr_html_()


@pytest.mark.slow
def test_maps_of_a_trained_tagger_fall_into_the_boxes(tmp_path_factory, feature_cache) -> None:
    """Three times as much as an even map would have there; `studies/heat_maps.py` measures all heads."""
    from tagloom.data.scenes import write_scenes

    root = tmp_path_factory.mktemp("pointing")
    settings = SceneSettings(object_size=(0.3, 0.5), things_per_picture=(1, 2), size=160)
    scenes = write_scenes(root / "scenes", train=400, val=20, test=40, settings=settings)
    for recipe in ("quick", "quick-gap"):
        out = root / recipe
        tagloom.train(scenes / "train.csv", recipe=recipe, out=out, cache=feature_cache, epochs=6, show_progress=False)
        shares = in_boxes(tagloom.load(out), scenes)
        assert len(shares) > 20
        assert np.mean(shares) > 2.5, recipe  # of things this large, 3 is nearly all; the study has smaller ones


def in_boxes(tagger: tagloom.Tagger, scenes: Path) -> list[float]:
    import json

    shares = []
    for line in (scenes / "boxes.jsonl").read_text().splitlines():
        thing = json.loads(line)
        if "test_0" in thing["image"]:
            heat = tagger.explain(scenes / thing["image"], [thing["thing"]]).maps[0]
            left, top, right, bottom = (round(edge) for edge in thing["box"])
            inside = heat[top:bottom, left:right]
            if heat.sum() > 0:
                shares.append(inside.sum() / heat.sum() / (inside.size / heat.size))
    return shares
