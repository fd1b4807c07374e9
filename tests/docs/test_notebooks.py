"""The notebooks of the documentation run from top to bottom, and their pages show what they print."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["labels-by-words", "look-inside", "own-data"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("torch")
    from notebooks import run_notebook

    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    run_notebook(path, work)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert sum(bool(cell["outputs"]) for cell in cells) >= 4, "run it with: make notebooks"
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert "error" not in kinds
    assert str(Path.home()) not in path.read_text(encoding="utf-8"), "outputs name a folder of somebody's machine"
