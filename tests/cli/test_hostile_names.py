"""Names from strangers' files reach the terminal through every verb: none may steer it, break a line or be markup."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.cli import main
from tagloom.terminal import HarmlessConsole, note, print_line, warn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs names of any bytes")

ESCAPE, REVERSE, FORGED = "\x1b[31m", "\u202e", "\nerror: forged"
CLASSES = (f"cat{ESCAPE}", f"dog{FORGED}", f"sofa{REVERSE}", "[/car]", "[bold]:tree:\x9b2J")
FILES = (
    *(f"1{ESCAPE}.png", f"2{FORGED}.png", f"3{REVERSE}gnp.png", "4[/x].png", "5\x07\x9b.png", "6:cat:.png"),
    os.fsdecode(b"7\xff.png"),
)
SMALL = ("backbone.name=test_efficientnet", "backbone.weights=none", "preprocess.size=32", "augment.flip=0")

Tagloom = Callable[..., tuple[int, str]]


@pytest.fixture
def tagloom(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tagloom:
    """Run the command here, check all that it prints, and give its exit code and what it printed."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        try:
            main()
            code: object = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        printed = captured.out + captured.err
        bad = {character for character in printed if not character.isprintable() and character not in "\n\xa0"}
        assert not bad, (bad, printed)
        assert not [line for line in printed.splitlines() if line.startswith(("error: forged", " error: forged"))]
        assert isinstance(code, int)
        return code, printed

    return run


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Images with hostile names, and a table of them with hostile labels; one of them cannot be read."""
    folder = tmp_path / f"photos{ESCAPE}[/red]"
    folder.mkdir(parents=True)  # "[/red]" is a folder "[" and a folder "red]" in it, and markup in a message
    rng = np.random.default_rng(0)
    lines = []
    for number in range(4 * len(FILES)):
        name = f"{number}-{FILES[number % len(FILES)]}"
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(folder / name)
        labels = [CLASSES[number % 5], CLASSES[(number + number // 5 + 1) % 5]]
        lines.append(json.dumps({"image": name, "labels": labels}))
    broken = f"broken{FORGED}{ESCAPE}.png"
    (folder / broken).write_bytes(b"not an image")
    lines.append(json.dumps({"image": broken, "labels": [CLASSES[0]]}))
    (folder / "table.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture
def hostile(untrained_run: Path, tmp_path: Path) -> Path:
    """A tagger whose classes have hostile names."""
    folder = Path(shutil.copytree(untrained_run, tmp_path / f"run{ESCAPE}[/b]"))
    spec = json.loads((folder / "tagger.json").read_text())
    spec["classes"] = list(CLASSES)
    (folder / "tagger.json").write_text(json.dumps(spec))
    return folder


def test_predict(tagloom: Tagloom, hostile: Path, photos: Path) -> None:
    code, printed = tagloom("predict", hostile, photos, "--top-k", 5)
    assert code == 0
    assert "[/car]" in printed
    assert "[bold]:tree:" in printed
    assert "4[/x].png" in printed
    assert "6:cat:.png" in printed
    lines = printed.splitlines()
    assert len([line for line in lines if "cat�[31m 0." in line]) == 4 * len(FILES), "one line for each image"


def test_predict_to_a_file_with_markup_in_its_name_is_a_success(
    tagloom: Tagloom, hostile: Path, photos: Path, tmp_path: Path
) -> None:
    for name in ("o[/x].csv", "o[bold].jsonl", f"o{ESCAPE}{FORGED}.csv", os.fsdecode(b"o\xff.csv")):
        code, printed = tagloom("predict", hostile, photos, "--out", tmp_path / name)
        assert code == 0, printed
        assert (tmp_path / name).is_file()
        assert "28 of 29 images tagged, in" in printed
    assert "o[bold].jsonl" in tagloom("predict", hostile, photos, "--out", tmp_path / "o[bold].jsonl")[1]


def test_check_and_partition(tagloom: Tagloom, photos: Path, tmp_path: Path) -> None:
    report = tmp_path / "a[/x].json"
    code, printed = tagloom("check", photos / "table.jsonl", "--val", photos / "table.jsonl", "--json", report)
    assert code == 0, printed
    assert set(json.loads(report.read_text())["classes"]) == set(CLASSES)
    code, printed = tagloom("partition", photos / "table.jsonl", "--k", 2, "--json", report)
    assert code == 0, printed


@pytest.mark.parametrize("verb", ["evaluate", "hard"])
def test_verbs_that_score(tagloom: Tagloom, hostile: Path, photos: Path, tmp_path: Path, verb: str) -> None:
    (photos / f"broken{FORGED}{ESCAPE}.png").write_bytes((photos / "0-1\x1b[31m.png").read_bytes())
    plot = tmp_path / "p[/x].png"
    arguments = ["--plot", plot, "--json", tmp_path / "x.json"]
    code, printed = tagloom(verb, hostile, photos / "table.jsonl", *arguments)
    assert code == 0, printed
    assert "p[/x].png" in printed


def test_evaluate_names_the_images_it_left_out(tagloom: Tagloom, hostile: Path, photos: Path) -> None:
    code, printed = tagloom("evaluate", hostile, photos / "table.jsonl", "--max-broken", 0.5)
    assert code == 0
    assert "left out: " in printed
    code, printed = tagloom("evaluate", hostile, photos / "table.jsonl", "--max-broken", 0)
    assert code == 2
    assert "cannot be read" in printed


def test_compare_and_export(tagloom: Tagloom, hostile: Path, photos: Path, tmp_path: Path) -> None:
    (photos / f"broken{FORGED}{ESCAPE}.png").write_bytes((photos / "0-1\x1b[31m.png").read_bytes())
    other = tmp_path / f"other{FORGED}[/b]"
    code, printed = tagloom("export", hostile, "--out", other)
    assert code == 0, printed
    spec = json.loads((other / "tagger.json").read_text())
    spec["classes"][0] = f"yak{FORGED}{REVERSE}"
    (other / "tagger.json").write_text(json.dumps(spec))
    gap = ",".join(CLASSES[3:])
    arguments = (hostile, other, photos / "table.jsonl", "--ignore-other-labels", "--gap", gap, "--resamples", 10)
    code, printed = tagloom("compare", *arguments, "--all", "--plot", tmp_path / "c[/x].png")
    assert code == 0, printed


def test_train_on_names_that_are_hostile_or_not_utf_8(tagloom: Tagloom, photos: Path, tmp_path: Path) -> None:
    data = photos.rename(tmp_path / os.fsdecode(b"caf\xe9\x1b[31m"))
    settings = [word for setting in (*SMALL, "data.max_broken=0.5") for word in ("--set", setting)]
    out = tmp_path / f"run{ESCAPE}{FORGED}[/b]"
    where = ("--out", out, "--cache", tmp_path / "cache", "--epochs", 1)
    code, printed = tagloom("train", data / "table.jsonl", *where, *settings)
    assert code == 0, printed
    assert "images cannot be read and are left out" in printed
    log = (out / "log.jsonl").read_text(encoding="utf-8")
    assert log.isascii()
    assert log.replace("\n", "").isprintable()
    spec = json.loads((out / "tagger.json").read_text(encoding="utf-8"))
    assert spec["data"]["training_table"] == str(data / "table.jsonl")


def test_explain(tagloom: Tagloom, photos: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from tagloom.models.network import build_network, save_weights
    from tagloom.recipe.pictures import Preprocess
    from tagloom.tagger.spec import TaggerSpec, write_spec

    torch.manual_seed(0)
    options = {
        "width": 16,
        "decoder": {"feed_forward": 16},
        "readout": {"shared_experts": 3, "task_experts": 2, "layer_widths": [8, 6]},
    }
    names = {"backbone": "test_efficientnet", "head": "hsq", "head_options": options}
    folder = tmp_path / f"experts{ESCAPE}"
    folder.mkdir()
    save_weights(build_network(**names, weights="none", classes=5, size=32, frozen=True), folder)
    write_spec(TaggerSpec(CLASSES, Preprocess(size=32), version="0", **names), folder)
    arguments = ("--json", tmp_path / "x[/x].json", "--plot", tmp_path / "x[/x].png")
    code, printed = tagloom("explain", "--experts", folder, photos, *arguments)
    assert code == 0, printed
    assert "left out: " in printed


def test_recipes(tagloom: Tagloom, tmp_path: Path) -> None:
    mine = tmp_path / f"a{ESCAPE}{FORGED}[/x].yaml"
    assert tagloom("recipes", "copy", "quick", mine)[0] == 0
    assert tagloom("recipes", "validate", mine)[0] == 0
    mine.write_text(f'name: "a\\e[31m\\n{REVERSE}"\npurpose: "\\e[2J"\n')
    tagloom("recipes", "validate", mine)


NAME = f"x{ESCAPE}{FORGED}{REVERSE}[/red]"
WRONG = [
    ("predict", NAME),
    ("predict", NAME, f"{NAME}.png"),
    ("predict", f"{NAME}.png"),
    ("evaluate", NAME, NAME),
    ("check", NAME),
    ("train", NAME),
    ("train", "--resume", "--out", NAME),
    ("distill", NAME),
    ("compare", NAME, "y", NAME),
    ("hard", NAME, NAME),
    ("export", NAME, "--out", "x"),
    ("partition", NAME),
    ("explain", "--experts", NAME, NAME),
    ("heads", "--backbone", NAME),
    ("recipes", "show", NAME),
    ("recipes", "validate", NAME),
    ("recipes", "copy", NAME, "x.yaml"),
]


@pytest.mark.parametrize("arguments", WRONG, ids=lambda arguments: " ".join(arguments[:1]))
def test_an_error_that_names_it(
    tagloom: Tagloom, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = tagloom(*arguments)
    assert code in (1, 2)
    assert "[/red]" in printed


def test_a_terminal_gets_styles_of_ours_only(capsys: pytest.CaptureFixture[str]) -> None:
    console = HarmlessConsole(force_terminal=True, color_system="standard", width=100)
    console.print(f"[bold]{ESCAPE}[/]", markup=True)
    assert capsys.readouterr().out == "\x1b[1m�[31m\x1b[0m\n"


def test_the_helpers_print_names_harmlessly(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"a{ESCAPE}b{FORGED}{REVERSE}[bold]c[/x]:cat:"
    warn(hostile)
    note(hostile)
    print_line(HarmlessConsole(width=200), hostile)
    captured = capsys.readouterr()
    assert captured.err == 2 * "a�[31mb\n  error: forged�[bold]c[/x]:cat:\n"
    assert captured.out == "a�[31mb�error: forged�[bold]c[/x]:cat:\n"
