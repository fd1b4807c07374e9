"""Every bench is listed in `bench/all.py`, and those with a speed claim have its one form. Nothing is timed here."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SHARED = {"all", "drawn", "ratio", "timing"}  # what benches use


@pytest.fixture(autouse=True)
def benches_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if Path(str(getattr(sys.modules[name], "__file__", ""))).parent == BENCH:
            del sys.modules[name]


def listed(table: str) -> dict[str, str]:
    return dict(getattr(importlib.import_module("all"), table))


def test_every_bench_is_listed_once():
    files = {path.stem for path in BENCH.glob("*.py")} - SHARED
    assert files == set(listed("BENCHES")) | set(listed("OTHERS"))
    assert not set(listed("BENCHES")) & set(listed("OTHERS"))


def test_every_bench_with_a_claim_has_the_form():
    ratio = importlib.import_module("ratio").Ratio
    for name in listed("BENCHES"):
        signature = inspect.signature(importlib.import_module(name).run)
        (brief,) = signature.parameters.values()
        assert (brief.name, brief.default, brief.annotation) == ("brief", False, bool), name
        assert signature.return_annotation == list[ratio], name


def test_the_page_names_every_claim_its_rival_and_the_machine():
    page, ratios = importlib.import_module("all").page, importlib.import_module("ratio")
    claims = [ratios.of_seconds("sorting", "quicksort", 0.5, 2.0), ratios.of_rates("tagging", "a script", 30.0, 20.0)]
    text = page({"metrics": claims}, seconds=90)
    assert "| sorting | quicksort | 500.0 ms | 2.00 s | 4.00 |" in text
    assert "| tagging | a script | 30.0 images/s | 20.0 images/s | 1.50 |" in text
    assert "The run took 1.5 minutes" in text
    for word in ("cores", "torch 2", "onnxruntime 1", *listed("OTHERS")):
        assert word in text


def test_a_part_of_the_claims_never_replaces_the_page(monkeypatch, capsys):
    everything = importlib.import_module("all")
    monkeypatch.setattr(sys, "argv", ["all.py", "--brief"])
    with pytest.raises(SystemExit):
        everything.main()
    assert "is of a full run" in capsys.readouterr().err


def test_training_with_many_labels_works_in_small(tmp_path):
    small = ["training", "--rows", "400", "--labels", "120", "--steps", "2", "--folder", str(tmp_path)]
    command = [sys.executable, str(BENCH / "many_labels.py"), *small]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert (found["rows"], found["labels"], found["held_out"]) == (400, 120, 40)
    assert found["images_per_cpu_second"] > 0
    assert found["training"]["own_mb"] < 4000
    assert list(tmp_path.iterdir()) == []
