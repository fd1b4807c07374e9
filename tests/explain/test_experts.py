import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

import torch
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.data.images import find_images, open_image
from tagloom.data.transforms import prepare
from tagloom.errors import TaggerError
from tagloom.explain.experts import expert_load
from tagloom.models.network import load_network
from tagloom.recipe import recipe_from_dict
from tagloom.tagger.spec import read_spec
from tagloom.training.plan import RunPlan
from tagloom.training.run import train

OPTIONS = {
    "width": 16,
    "decoder": {"feed_forward": 16},
    "readout": {"shared_experts": 3, "task_experts": 2, "layer_widths": [8, 6]},
}


@pytest.fixture(scope="module")
def sharing_run(tmp_path_factory: pytest.TempPathFactory, scenes: Path) -> Path:
    """A tagger with experts, trained for an epoch on the scenes, over a small backbone without weights."""
    out = tmp_path_factory.mktemp("sharing") / "run"
    recipe = recipe_from_dict(
        {
            "name": "sharing-test",
            "preprocess": {"size": 64},
            "backbone": {"name": "test_efficientnet", "weights": "none", "frozen": False},
            "head": {"name": "hsq", "options": OPTIONS},
            "optimiser": {"name": "adamw", "learning_rate": 0.01},
            "training": {"epochs": 1, "batch_size": 16},
        }
    )
    train(RunPlan(str(scenes / "train.csv"), None, recipe), out, device="cpu", cache_folder=out.parent / "cache")
    return out


def pictures(scenes: Path) -> list[Path]:
    return find_images(scenes)[:5]


def test_load_is_the_mean_of_the_gates_over_pictures_with_own_experts_last(sharing_run: Path, scenes: Path) -> None:
    chosen = pictures(scenes)
    assert len(chosen) == 5
    load = expert_load(sharing_run, chosen, device="cpu")
    assert load.experts == ("shared 1", "shared 2", "shared 3", "own 1", "own 2")
    assert load.pictures == 5
    network, spec = load_network(sharing_run, read_spec(sharing_run)), read_spec(sharing_run)
    rows = []
    for path in chosen:
        pixels = prepare(open_image(path), spec.preprocess)
        with torch.no_grad():
            (features,) = network.summarise(torch.from_numpy(pixels.copy())[None])
            rows.append([weights[0].numpy() for weights in network.head.gate_weights(features)])
    for layer in range(2):
        mean = np.mean([row[layer] for row in rows], axis=0)
        np.testing.assert_allclose(load.layers[layer][:, 3:], mean[:, :2], atol=1e-3)
        np.testing.assert_allclose(load.layers[layer].sum(axis=1), 1, atol=1e-5)


def test_effective_experts_are_one_for_a_single_and_all_for_even_weights(sharing_run: Path, scenes: Path) -> None:
    load = expert_load(sharing_run, pictures(scenes)[:1], device="cpu")
    load.layers[0][0] = [1, 0, 0, 0, 0]
    load.layers[0][1] = 0.2
    assert load.effective_experts(0)[:2] == pytest.approx([1, 5], abs=1e-4)


def test_explain_draws_prints_and_writes_the_load(sharing_run: Path, scenes: Path, tmp_path: Path) -> None:
    drawing, numbers = tmp_path / "load.png", tmp_path / "load.json"
    files = ["--plot", str(drawing), "--json", str(numbers)]
    arguments = ["explain", "--experts", str(sharing_run), str(scenes / "test.csv"), "--limit", "4", *files]
    result = CliRunner().invoke(app, [*arguments, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "layer 2, mean of 4 images" in result.output
    with Image.open(drawing) as image:
        assert min(image.size) > 200
    written = json.loads(numbers.read_text())
    assert np.shape(written["layers"][0]["weights"]) == (len(written["classes"]), 5)
    np.testing.assert_allclose(np.sum(written["layers"][1]["average"]), 1, atol=1e-4)


def test_explain_takes_one_picture_or_a_folder(sharing_run: Path, scenes: Path) -> None:
    for place, count in ((pictures(scenes)[0], 1), (pictures(scenes)[0].parent, 6)):
        arguments = ["explain", "--experts", str(sharing_run), str(place), "--device", "cpu", "--limit", "6"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert f"mean of {count} images" in result.output


def test_a_tagger_without_experts_says_how_to_get_one(finished_run: Path, scenes: Path) -> None:
    with pytest.raises(TaggerError, match="readout=hybrid-sharing"):
        expert_load(finished_run, pictures(scenes), device="cpu")
