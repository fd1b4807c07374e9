"""Without a tagger named, the one that comes with Tagloom is used; which argument is a tagger is never a guess."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import tagloom
from tagloom import ready
from tagloom.cli import main
from tagloom.errors import DataError, TaggerError
from tagloom.export.package import write_package
from tagloom.predict.files import split_arguments
from tagloom.tagger.spec import read_spec

MAX_BYTES = 14_000_000


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "photo.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(path)
    return path


@pytest.fixture(scope="session")
def small_ready(untrained_run, tmp_path_factory) -> Path:
    """What will lie in src/tagloom/ready, of a tiny tagger."""
    folder = tmp_path_factory.mktemp("ready")
    write_package(untrained_run, folder, stored="float16")
    return folder


@pytest.fixture
def with_ready(small_ready, monkeypatch) -> Path:
    shipped = ready._shipped_folder
    monkeypatch.setattr(ready, "_shipped_folder", lambda part: small_ready if part == "." else shipped(part))
    return small_ready


@pytest.fixture
def without_ready(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(ready, "_shipped_folder", lambda part: tmp_path / "nothing")


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        return code, *capsys.readouterr()

    return run


def test_load_without_a_folder_gives_the_ready_tagger(with_ready, photo):
    tagger = tagloom.load()
    assert tagger.classes == read_spec(with_ready).classes
    np.testing.assert_array_equal(tagger.scores(photo), tagloom.load(with_ready).scores(photo))


def test_predict_without_a_tagger_uses_the_ready_one(command, with_ready, photo):
    code, out, err = command("predict", photo, "--top-k", 2)
    assert code == 0
    assert err == "no tagger is named: tagging with the ready one, which comes with Tagloom\n"
    best = tagloom.load(with_ready).predict(photo, top_k=2)[0]
    assert [tag.label for tag in best] == [word for word in out.split() if word in read_spec(with_ready).classes]


def test_a_folder_of_pictures_alone_is_tagged_by_the_ready_one(command, with_ready, photo):
    code, out, _ = command("predict", photo.parent, "--top-k", 1)
    assert code == 0
    assert "photo.jpg" in out


def test_a_named_tagger_is_used_instead(command, without_ready, untrained_run, photo):
    code, out, err = command("predict", untrained_run, photo, "--top-k", 1)
    assert (code, err) == (0, "")
    assert "photo.jpg" in out


def test_where_there_is_no_ready_tagger_the_message_says_so_and_how_to_name_one(command, without_ready, photo):
    code, _, err = command("predict", photo)
    assert code == 2
    assert "the ready tagger is missing" in err
    assert "tagloom predict RUN photo.jpg" in err
    with pytest.raises(TaggerError, match="the ready tagger is missing"):
        tagloom.load()


def test_which_argument_is_the_tagger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("run", "begun", "photos"):
        Path(folder).mkdir()
    Path("run", "tagger.json").touch()
    Path("run", "sheet.png").touch()
    Path("begun", "run.json").touch()
    for file in ("a.jpg", "scan", "photos/b.jpg"):
        Path(file).touch()
    a, photos = Path("a.jpg"), Path("photos")
    assert split_arguments(["run", "a.jpg", "photos"]) == ("run", [a, photos])
    assert split_arguments(["begun", "a.jpg"]) == ("begun", [a]), "to be told that it is not finished"
    assert split_arguments(["hf-hub:owner/name", "a.jpg"]) == ("hf-hub:owner/name", [a])
    assert split_arguments(["runs/frist", "a.jpg"]) == ("runs/frist", [a]), "to be told that there is no such folder"
    assert split_arguments(["a.jpg"]) == (None, [a])
    assert split_arguments(["photos", "a.jpg"]) == (None, [photos, a])
    assert split_arguments(["scan"]) == (None, [Path("scan")]), "a file is a picture whatever its name"
    assert split_arguments(["missing.jpg", "a.jpg"]) == (None, [Path("missing.jpg"), a])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.jpg", "run"], "run: is a tagger, but stands among the images"),
        (["a.jpg", "hf-hub:owner/name"], "stands among the images"),
        (["run", "run"], "stands among the images"),
        (["run"], "name the images to tag after it"),
        (["hf-hub:owner/name"], "name the images to tag after it"),
        (["nowhere"], "no such image, folder of images, or tagger folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    Path("run", "tagger.json").touch()
    Path("a.jpg").touch()
    with pytest.raises(DataError, match=message):
        split_arguments(arguments)


def test_predicting_imports_nothing_slow(small_ready, photo):
    script = (
        "import sys; from pathlib import Path; from tagloom import ready\n"
        f"ready._shipped_folder = lambda part: Path({str(small_ready)!r}, part)\n"
        f"sys.argv = ['tagloom', 'predict', {str(photo)!r}, '--top-k', '1']\n"
        "from tagloom.cli import main\nmain()\n"
        "slow = {'torch', 'timm', 'scipy', 'sklearn', 'pyarrow', 'matplotlib', 'onnx', 'huggingface_hub'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_export_writes_the_folder_that_ships(command, untrained_run, tmp_path):
    code, out, err = command("export", untrained_run, "--float16", "--out", tmp_path / "ready")
    assert code == 0, err
    assert "scores differ by at most" in out
    assert {path.name for path in (tmp_path / "ready").iterdir()} == {"tagger.json", "model.onnx", "README.md"}


def test_the_demo_shows_it_on_photographs(with_ready, tmp_path):
    pytest.importorskip("sklearn")
    from tagloom.demo import _show_ready, installed_photographs

    photographs = installed_photographs()
    assert {"china.jpg", "flower.jpg"} <= {path.name for path in photographs}
    console = Console(file=io.StringIO(), width=200)
    _show_ready(tmp_path / "ready.png", console)
    shown = console.file.getvalue()
    assert all(shown.count(path.name) == 3 for path in photographs), "80 labels, everyday words, typed labels"
    assert (tmp_path / "ready.png").is_file()


def test_the_ready_tagger_is_small_calibrated_and_says_how_good_it_is():
    folder = ready.ready_folder()
    assert sum((folder / name).stat().st_size for name in ("tagger.json", "model.onnx", "README.md")) <= MAX_BYTES
    spec = read_spec(folder)
    assert spec.calibration is not None
    assert len(spec.thresholds) == len(spec.classes)
    assert spec.metrics["validation"]["mAP"] > 62
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"{spec.metrics['validation']['mAP']:.2f}" in card
    assert tagloom.load().scores(np.zeros((8, 8, 3), np.uint8)).shape == (1, len(spec.classes))


def test_the_ready_tagger_sees_an_admiral_and_her_tie():
    from tagloom.demo import installed_photographs

    (portrait,) = [path for path in installed_photographs() if path.name == "grace_hopper.jpg"]
    (tags,) = tagloom.load().predict(portrait)
    assert [tag.label for tag in tags[:2]] == ["person", "tie"]
    assert tags[0].score > 0.9
