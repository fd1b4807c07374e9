"""What many tests share: a small set of drawn scenes, and one tagger that was trained on them."""

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# A machine that is busy with other things must not fail a test by being slow, and CI must not fail by luck.
hypothesis.settings.register_profile("tagloom", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("tagloom")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch is imported later, inside the tests that need it

SIZE = 64
"""Side of the pictures that the shared tagger sees: small, so that extraction takes seconds."""

QUICK = {
    "name": "quick-test",
    "preprocess": {"size": SIZE},
    "data": {"holdout": 0.2},
    "loss": {"name": "soft-margin"},
    "optimiser": {"name": "sgd", "learning_rate": 0.1, "weight_decay": 0.0},
    "training": {"epochs": 4, "batch_size": 16, "select": "last"},
}
"""A recipe like `quick`, for small pictures and few epochs."""


@pytest.fixture(scope="session")
def fuzz_rounds() -> Callable[[int], int]:
    """How many rounds a long test runs: all of them under `make fuzz`, a tenth elsewhere."""
    return lambda full: full if os.environ.get("TAGLOOM_FUZZ") == "full" else max(1, full // 10)


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of scenes: 60 to train on, 16 to validate, 12 in each test file."""
    from tagloom.data.scenes import SceneSettings, write_scenes

    folder = tmp_path_factory.mktemp("scenes") / "scenes"
    return write_scenes(folder, train=60, val=16, test=12, settings=SceneSettings(size=96))


@pytest.fixture(scope="session")
def feature_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature cache that all tests share, so that each picture goes through the backbone once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, scenes: Path, feature_cache: Path) -> Path:
    """The folder of a tagger: bundled EfficientNet-Lite0, frozen, with a linear head. Copy it before changing it."""
    pytest.importorskip("torch")
    from tagloom.recipe import recipe_from_dict
    from tagloom.training.plan import RunPlan
    from tagloom.training.run import train

    out = tmp_path_factory.mktemp("runs") / "finished"
    plan = RunPlan(str(scenes / "train.csv"), str(scenes / "val.csv"), recipe_from_dict(QUICK))
    train(plan, out, cache_folder=feature_cache)
    return out


@pytest.fixture(scope="session")
def untrained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny tagger of five labels with random weights, made in seconds. Copy it before changing it."""
    pytest.importorskip("torch")
    import torch

    from tagloom.models.network import build_network, export_network, save_weights
    from tagloom.recipe.pictures import Preprocess
    from tagloom.scoring.calibration import Calibration
    from tagloom.tagger.spec import TaggerSpec, write_spec

    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("runs") / "untrained"
    out.mkdir()
    names = {"backbone": "test_efficientnet", "head": "gap", "head_options": {}}
    network = build_network(**names, weights="none", classes=5, size=32, frozen=True)
    torch.nn.init.normal_(network.head.linear.weight, std=0.2)
    save_weights(network, out)
    export_network(network, out / "model.onnx", size=32)
    calibration = Calibration(1.5, -1.0, (1.0, 1.5, 2.0, 0.5, 1.0), (-1.0, 0.0, 1.0, 0.5, -0.5))
    classes = ("cat", "dog", "sofa", "car", "tree")
    write_spec(TaggerSpec(classes, Preprocess(size=32), calibration=calibration, version="0", **names), out)
    return out


@pytest.fixture
def quick() -> dict[str, Any]:
    """The recipe of the shared tagger as plain data, to be changed by a test."""
    return copy.deepcopy(QUICK)


UNSEEN = ("anchor", "car", "heart", "tree")
"""Things of the scenes that the shared tagger of words is not trained on."""


@pytest.fixture(scope="session")
def glove(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file of word vectors, 6 values each: the things of the scenes, and some words beside."""
    import numpy as np

    from tagloom.data.scenes import scene_classes

    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("glove") / "glove.6d.txt"
    words = [*scene_classes(), "red", "golden", "wedding", "surfboard", *(f"w{number}" for number in range(30))]
    lines = [f"{word} {' '.join(f'{value:.4f}' for value in rng.standard_normal(6))}" for word in words]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def word_run(tmp_path_factory: pytest.TempPathFactory, scenes: Path, feature_cache: Path, glove: Path) -> Path:
    """The folder of a tagger of words, trained on all things but `UNSEEN`. Copy it before changing it."""
    pytest.importorskip("torch")
    from tagloom.data.scenes import scene_classes
    from tagloom.recipe import recipe_from_dict
    from tagloom.training.plan import RunPlan
    from tagloom.training.run import train

    content = copy.deepcopy(QUICK) | {
        "words": {"source": str(glove), "query_noise": 0.1, "random_queries": 3},
        "head": {"name": "ml-decoder-words", "options": {"width": 16, "feed_forward": 24, "attention_heads": 2}},
        "optimiser": {"learning_rate": 0.003},
    }
    out = tmp_path_factory.mktemp("runs") / "words"
    seen = tuple(name for name in scene_classes() if name not in UNSEEN)
    plan = RunPlan(str(scenes / "train.csv"), None, recipe_from_dict(content), classes=seen)
    train(plan, out, cache_folder=feature_cache)
    return out


@pytest.fixture(scope="session")
def workers_below() -> Callable[[int, str], list[int]]:
    """Find the Ray workers that run a task, started by a process or one below it."""

    def find(pid: int, task: str) -> list[int]:
        found = []
        for status in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                is_worker = status.read_bytes().startswith(f"ray::{task}".encode())
                above = int(status.parent.name)
                while is_worker and above not in (0, 1, pid):
                    above = int((Path("/proc") / str(above) / "stat").read_text().rpartition(")")[2].split()[1])
                if is_worker and above == pid:
                    found.append(int(status.parent.name))
            except OSError:  # it has ended meanwhile
                continue
        return found

    return find
