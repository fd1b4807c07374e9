"""The command as people meet it: what it prints, and what it exits with."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.cli import app, main
from tagloom.recipe import load_recipe, recipe_names
from tagloom.recipe.names import HEADS


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Run the command in this process and give its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "200")
    try:
        main()
        code: object = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    captured = capsys.readouterr()
    assert isinstance(code, int)
    return code, captured.out, captured.err


@pytest.fixture
def tagloom(monkeypatch, capsys):
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve small photographs with labels."""
    rng = np.random.default_rng(0)
    rows = ["image,labels"]
    for number in range(12):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{'cat|dog' if number % 2 else 'cat'}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    return tmp_path


def test_help_answers_without_importing_torch():
    script = (
        "import sys; sys.argv=['tagloom','--help']\ntry:\n  from tagloom.cli import main; main()\nfinally:\n  "
        "assert not {'torch', 'timm', 'scipy', 'onnxruntime'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for verb in ("check", "train", "evaluate", "predict", "recipes"):
        assert verb in done.stdout


def test_check_audits_a_table_and_writes_json(tagloom, photos):
    code, out, _ = tagloom("check", photos / "labels.csv", "--json", photos / "audit.json")
    assert code == 0
    assert "nothing to fix" in out.lower()
    audit = json.loads((photos / "audit.json").read_text())
    assert audit["images"] == 12
    assert audit["classes"] == ["cat", "dog"]


def test_check_finds_images_that_are_in_both_tables(tagloom, photos):
    _, out, _ = tagloom("check", photos / "labels.csv", "--val", photos / "labels.csv")
    assert "shared" in out


def test_check_exits_with_1_when_all_images_are_missing(tagloom, photos):
    for picture in photos.glob("*.png"):
        picture.unlink()
    code, out, _ = tagloom("check", photos / "labels.csv")
    assert code == 1
    assert "missing" in out


def test_an_empty_csv_is_named_as_such(tagloom, tmp_path):
    (tmp_path / "labels.csv").write_text("")
    code, _, err = tagloom("check", tmp_path / "labels.csv")
    assert code == 2
    assert "labels.csv" in err
    assert "empty" in err


def test_a_label_that_is_no_class_is_named_with_its_line_and_the_nearest_class(tagloom, photos):
    (photos / "classes.txt").write_text("cat\ndog\n")
    with (photos / "labels.csv").open("a") as file:
        file.write("\n0.png,dgo")
    code, _, err = tagloom("check", photos / "labels.csv")
    assert code == 2
    assert "dgo" in err
    assert "'dog'" in err
    assert "14" in err


def test_a_validation_table_with_an_unknown_class_is_refused(tagloom, photos):
    (photos / "val.csv").write_text("image,labels\n0.png,horse\n")
    code, _, err = tagloom("train", photos / "labels.csv", "--val", photos / "val.csv", "--out", photos / "run")
    assert code == 2
    assert "horse" in err


def test_training_on_images_that_are_all_missing_stops_with_a_list(tagloom, photos):
    for picture in photos.glob("*.png"):
        picture.unlink()
    code, _, err = tagloom("train", photos / "labels.csv", "--out", photos / "run", "--cache", photos / "cache")
    assert code == 2
    assert "images cannot be read" in err
    assert "0.png" in err


def test_a_misspelt_recipe_gets_a_suggestion(tagloom, photos):
    code, _, err = tagloom("train", photos / "labels.csv", "--recipe", "quik")
    assert code == 2
    assert "did you mean 'quick'?" in err


def test_a_misspelt_name_inside_a_recipe_gets_a_suggestion(tagloom, tmp_path):
    (tmp_path / "mine.yaml").write_text("loss:\n  name: assymetric\n")
    code, _, err = tagloom("recipes", "validate", tmp_path / "mine.yaml")
    assert code == 2
    assert "did you mean 'asymmetric'?" in err
    (tmp_path / "mine.yaml").write_text("training:\n  epoch: 3\n")
    code, _, err = tagloom("recipes", "validate", tmp_path / "mine.yaml")
    assert code == 2
    assert "did you mean 'epochs'?" in err
    (tmp_path / "mine.yaml").write_text("head:\n  options:\n    drop_out: 3\n")
    code, _, err = tagloom("recipes", "validate", tmp_path / "mine.yaml")
    assert code == 2
    assert "did you mean 'dropout'?" in err


def test_recipes_can_be_listed_shown_copied_and_validated(tagloom, tmp_path):
    assert "quick" in tagloom("recipes", "list")[1]
    shown = tagloom("recipes", "show", "quick")[1]
    assert shown.startswith("#")
    mine = tmp_path / "mine.yaml"
    assert tagloom("recipes", "copy", "quick", mine)[0] == 0
    assert mine.read_text() == shown
    assert tagloom("recipes", "validate", mine)[0] == 0
    assert tagloom("recipes", "copy", "quick", mine)[0] == 2, "a file of the user's is never overwritten"


def test_the_list_of_recipes_is_grouped_by_paper_and_fits_into_80_columns(tagloom):
    code, out, _ = tagloom("recipes", "list")
    assert code == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    groups = [line for line in lines if line.startswith(("For your own", "Rows of"))]
    assert len(groups) == 6
    for name in recipe_names():
        (line,) = [line for line in lines if line.split(" ")[0] == name]
        assert "…" not in line
    after = lines[lines.index("Rows of CPSD (Xu et al., 2022), for tagloom distill") :]
    assert any(line.startswith("cpsd-coco-resnet101-448 ") and "83.1 (81.6 without)" in line for line in after)


def test_a_recipe_is_shown_with_all_that_comes_from_its_base(tagloom, tmp_path):
    shown = tagloom("recipes", "show", "ml-decoder-coco-tresnet-l-640")[1]
    assert "--recipe ml-decoder-coco-tresnet-l-640" in shown.splitlines()[1]
    path = tmp_path / "shown.yaml"
    path.write_text(shown)
    assert "base:" not in shown
    assert load_recipe(str(path)) == load_recipe("ml-decoder-coco-tresnet-l-640")


def test_a_picture_that_unfolds_to_gigabytes_is_refused_by_its_header(tagloom, photos):
    import struct
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(600 * 1024 * 1024), 9)
    assert len(body) < 700_000
    (photos / "0.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )
    started = time.monotonic()
    _, out, _ = tagloom("check", photos / "labels.csv")
    assert "30000 x 30000" in out.replace(",", "") or "900" in out
    assert time.monotonic() - started < 20


def test_predict_without_a_tagger_says_what_to_give(tagloom, photos):
    code, _, err = tagloom("predict", photos / "nowhere", photos / "0.png")
    assert code == 2
    assert "no such folder" in err


def test_data_options_reach_the_format(tagloom, photos):
    code, _, err = tagloom("check", photos / "labels.csv", "--data-option", "dificult=unknown")
    assert code == 2
    assert "dificult" in err


def test_a_trained_tagger_evaluates_and_predicts(tagloom, finished_run, scenes, tmp_path):
    code, out, _ = tagloom("evaluate", finished_run, scenes / "test.csv", "--json", tmp_path / "metrics.json")
    assert code == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert {"mAP", "CP", "CR", "CF1", "OP", "OR", "OF1", "OF1_top3", "AP"} <= set(metrics)
    assert f"{metrics['mAP']:.2f}" in out

    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"not a picture")
    code, out, err = tagloom("predict", finished_run, scenes / "images", broken, "--out", tmp_path / "tags.csv")
    assert code == 0
    assert "broken.jpg" in err
    lines = (tmp_path / "tags.csv").read_text().splitlines()
    assert lines[0] == "image,labels,scores"
    assert len(lines) == 1 + len(list((scenes / "images").iterdir()))
    assert tagloom("predict", finished_run, broken)[0] == 1


def test_heads_are_listed_with_what_they_cost(tagloom):
    code, out, _ = tagloom("heads", "--backbone", "test_efficientnet.r160_in1k", "--classes", "30", "--size", "64")
    assert code == 0
    for name in HEADS:
        assert name in out


@pytest.mark.parametrize(("settings", "activation"), [([], "softmax"), (["--set", "loss.name=bce"], "sigmoid")])
def test_task_single_trains_a_drop_in_for_a_classifier(tagloom, tmp_path, feature_cache, settings, activation):
    rng = np.random.default_rng(0)
    for number, colour in enumerate([(220, 30, 30), (30, 30, 220)]):
        folder = tmp_path / "photos" / ("red", "blue")[number]
        folder.mkdir(parents=True)
        for count in range(12):
            noise = rng.integers(0, 30, (48, 48, 3))
            Image.fromarray((np.array(colour) * 0.85 + noise).astype(np.uint8)).save(folder / f"{count}.png")
    small = ["--set", "preprocess.size=64", "--set", "training.epochs=6", "--set", "head.options.dropout=0"]
    code, out, err = tagloom(
        "train", tmp_path / "photos", "--task", "single", "--recipe", "quick-gap", "--out", tmp_path / "run",
        "--cache", feature_cache, "--set", "data.holdout=0.25", *small, *settings,
    )  # fmt: skip
    assert code == 0, err
    spec = json.loads((tmp_path / "run" / "tagger.json").read_text())
    assert spec["activation"] == activation
    assert spec["metrics"]["held_aside"]["top1"] == 100.0
    code, out, _ = tagloom("predict", tmp_path / "run", tmp_path / "photos" / "red" / "0.png")
    assert "red" in out.split("0.png")[1]


def test_the_readme_names_only_verbs_recipes_and_heads_that_exist():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^tagloom ([a-z]+)", readme, flags=re.MULTILINE))
    assert verbs >= {"check", "train", "evaluate", "predict"}
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert verbs <= known | {"recipes", "keywords"}
    assert set(re.findall(r"--recipe ([a-z-]+)", readme)) <= set(recipe_names())
    assert set(re.findall(r'create_head\("([a-z-]+)"', readme)) <= set(HEADS)


def test_evaluate_tells_how_reliable_scores_are_before_and_after_calibration(tagloom, untrained_run, photos):
    pytest.importorskip("matplotlib")
    json_path, plot = photos / "metrics.json", photos / "reliability.png"
    code, out, err = tagloom("evaluate", untrained_run, photos / "labels.csv", "--json", json_path, "--plot", plot)
    assert code == 0, err
    assert plot.is_file()
    found = json.loads(json_path.read_text())["calibration"]
    assert set(found) == {"before", "after"}
    for part in found.values():
        assert f"{part['equal-mass']['ECE']:.2f}" in out
        assert len(part["equal-width"]["label_ECE"]) == 5


def test_evaluate_can_allow_more_images_that_cannot_be_read(tagloom, untrained_run, photos):
    pictures = sorted(photos.glob("*.png"))
    pictures[0].write_bytes(b"not a picture")
    code, _, err = tagloom("evaluate", untrained_run, photos / "labels.csv")
    assert code == 2
    assert "tagloom evaluate … --max-broken 0.2" in err
    assert "--set" not in err
    code, _, err = tagloom("evaluate", untrained_run, photos / "labels.csv", "--max-broken", 0.9)
    assert code == 0, err
    assert f"left out: {pictures[0]}" in err


def test_a_drawing_that_cannot_be_made_is_refused_before_any_work(tagloom, photos):
    code, _, err = tagloom("evaluate", photos / "nowhere", photos / "labels.csv", "--plot", photos / "a.gif")
    assert code == 2
    assert "drawings are written as" in err


def test_help_flows_to_the_width_of_the_terminal(tagloom):
    assert "precision and recall, scores and their reliability" in tagloom("report", "--help")[1]
    assert "else in a sidecar stay" in tagloom("keywords", "write", "--help")[1]


def test_a_picture_that_is_too_large_is_refused_in_our_words_alone(tmp_path):
    Image.new("1", (9500, 9500)).save(tmp_path / "huge.png")
    command = [sys.executable, "-m", "tagloom", "predict", str(tmp_path / "huge.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "has 90,250,000 pixels, more than" in done.stderr
    assert "Warning" not in done.stderr
