"""A tagger goes to the hub with its card and nothing else, and comes back as the same tagger."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.errors import TaggerError

pytest.importorskip("huggingface_hub")
from tagloom.export.publish import push_tagger

sys.path.insert(0, str(Path(__file__).parent))
from loopback_hub import TOKEN, Hub, loopback_hub

SECRETS = ("run.json", "log.jsonl", "checkpoint.safetensors", "notes.txt", ".env")


def tagloom(hub: Hub, home: Path, *arguments: str, token: str = TOKEN) -> "subprocess.CompletedProcess[str]":
    """Run the command with the hub's client pointed at our hub."""
    environment = os.environ | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "*",
    }
    command = [sys.executable, "-m", "tagloom", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def run(untrained_run: Path, tmp_path: Path) -> Path:
    """A run's folder with more in it than the tagger."""
    folder = Path(shutil.copytree(untrained_run, tmp_path / "run"))
    for name in SECRETS:
        (folder / name).write_text("private")
    return folder


def test_what_is_pushed_is_the_tagger_with_its_card_and_loads_again(run: Path, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(photo)
    with loopback_hub() as hub:
        pushed = tagloom(hub, tmp_path / "home", "push", str(run), "me/tagger")
        assert pushed.returncode == 0, pushed.stderr
        assert f"hf-hub:me/tagger@{hub.commits[-1]}" in pushed.stdout.replace("\n", "")
        assert sorted(hub.repositories["me/tagger"]) == ["README.md", "model.onnx", "tagger.json"]
        assert hub.repositories["me/tagger"]["model.onnx"] == (run / "model.onnx").read_bytes()
        assert hub.private == {"me/tagger": True}, "nobody's tagger becomes public by itself"
        assert len(hub.commits) == 1, "in one step, so that nobody loads half of it"
        theirs = tagloom(hub, tmp_path / "home", "predict", "hf-hub:me/tagger", str(photo), "--top-k", "5")
    ours = tagloom(hub, tmp_path / "home", "predict", str(run), str(photo), "--top-k", "5")
    assert theirs.returncode == 0, theirs.stderr
    assert theirs.stdout == ours.stdout != ""


def test_the_weights_and_everybody_are_asked_for_by_name(run: Path, tmp_path: Path) -> None:
    with loopback_hub() as hub:
        pushed = tagloom(hub, tmp_path / "home", "push", str(run), "me/tagger", "--public", "--weights")
        assert pushed.returncode == 0, pushed.stderr
        wanted = ["README.md", "model.onnx", "model.safetensors", "tagger.json"]
        assert sorted(hub.repositories["me/tagger"]) == wanted
        assert hub.private == {"me/tagger": False}


def test_who_may_not_write_there_is_told_so(run: Path, tmp_path: Path) -> None:
    with loopback_hub() as hub:
        pushed = tagloom(hub, tmp_path / "home", "push", str(run), "me/tagger", token="hf_wrong")  # noqa: S106
        assert pushed.returncode == 2
        told = " ".join(pushed.stderr.split())
        assert "me/tagger: the hub did not take the tagger" in told
        assert "hf auth login" in told
        assert "Traceback" not in told
        assert hub.repositories == {}


def test_what_is_no_tagger_or_no_name_is_refused_before_anything_is_sent(tmp_path: Path, run: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(TaggerError, match=r"photos: has no tagger\.json"):
        push_tagger(tmp_path / "photos", "me/tagger")
    for name in ("tagger", "me/tagger@main", "https://example.org/me/tagger", "me/tag ger"):
        with pytest.raises(TaggerError, match="owner/name"):
            push_tagger(run, name)
    (run / "model.safetensors").unlink()
    with pytest.raises(TaggerError, match=r"has no model\.safetensors\. Leave out --weights"):
        push_tagger(run, "me/tagger", weights=True)
