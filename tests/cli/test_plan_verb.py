"""`tagloom plan`: a real measurement of this machine, and plans from it."""

import json
import re

import pytest
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.sizing.profile import read_profile
from tagloom.training import machine


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(machine, "SECONDS", 0.02)
    monkeypatch.setattr(machine, "DISK_BYTES", 1 << 20)
    return lambda *arguments: CliRunner().invoke(app, ["plan", *arguments])


def test_the_first_plan_measures_this_machine_and_the_next_does_not(run, tmp_path, scenes):
    first = run("--images", "9e6", "--labels", "9600", "--gpus", "8", "--photos", str(scenes / "images"))
    assert first.exit_code == 0, first.output
    assert "NO GPU WAS MEASURED" in first.output
    profile = read_profile(tmp_path / "cache" / "profile.json")
    sizes = [path.stat().st_size for path in (scenes / "images").iterdir()]
    assert profile.image_bytes == pytest.approx(sum(sizes) / len(sizes))
    assert profile.feature_bytes == 2 * 1280 * 7 * 7  # a map of Lite0 at 224 pixels, in half precision
    assert profile.head_bytes_per_label == pytest.approx(4 * (256 + 1))  # a row of width 256 and a bias
    out = tmp_path / "plan.json"
    wanted = ["--images", "1e9", "--labels", "9600", "--machines", "10", "--gpus", "8", "--gpu-rate", "2500"]
    second = run(*wanted, "--price-per-hour", "20", "--read-megabytes", "900", "--json", str(out))
    assert second.exit_code == 0, second.output
    assert "measuring" not in second.output
    assert "one GPU extracts 2,500 images/s, as given" in second.output
    assert "Assumed: disks of 900 MB/s, as given" in second.output
    content = json.loads(out.read_text())
    assert content["profile"]["read_rate"] == 9e8
    assert content["money"] == pytest.approx(content["seconds"] / 3600 * 10 * 20)
    assert re.search(r"Bottleneck: .* in '.*'", second.output)
    assert content["profile"]["machine"] == profile.machine


def test_a_plan_without_a_size_says_what_is_missing(run):
    result = run("--images", "9e6")
    assert result.exit_code != 0
    assert "say how many images and labels" in str(result.exception)
