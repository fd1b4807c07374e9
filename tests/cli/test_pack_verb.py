"""`tagloom pack`, and the other verbs on what it writes: they say of shards what they say of the folder."""

import csv
import json
import shutil

import fsspec
import pytest

from tagloom.data import load_table


@pytest.fixture
def shards(tagloom, scenes, tmp_path):
    code, out, err = tagloom("pack", scenes / "train.csv", "--out", tmp_path / "shards")
    assert (code, err) == (0, "")
    assert "60 images in 1 shard of" in out
    return tmp_path / "shards"


def test_check_finds_in_shards_what_it_finds_in_the_folder(tagloom, scenes, shards, tmp_path):
    found = {}
    for name, data in (("folder", scenes / "train.csv"), ("shards", shards)):
        code, _, _ = tagloom("check", data, "--val", scenes / "val.csv", "--json", tmp_path / f"{name}.json")
        assert code == 0
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
        for own in ("source", "understood"):
            found[name].pop(own)
    assert found["folder"] == found["shards"]


def test_a_second_pack_writes_nothing_and_another_seed_is_another_table(tagloom, scenes, shards):
    code, out, _ = tagloom("pack", scenes / "train.csv", "--out", shards)
    assert (code, "60 of them there already" in out) == (0, True)
    code, _, err = tagloom("pack", scenes / "train.csv", "--out", shards, "--shuffle", "1")
    assert (code, "is of another table" in err) == (2, True)
    code, _, _ = tagloom("pack", scenes / "train.csv", "--out", shards, "--shuffle", "1", "--split", "mixed")
    folder, mixed = load_table(scenes / "train.csv"), load_table(f"{shards}#mixed")
    assert folder.images != mixed.images
    assert sorted(folder.images) == sorted(mixed.images)


def test_evaluate_and_partition_take_shards(tagloom, finished_run, scenes, shards, tmp_path):
    told = {}
    for name, data in (("folder", scenes / "train.csv"), ("shards", shards)):
        assert tagloom("evaluate", finished_run, data, "--json", tmp_path / f"{name}.json")[0] == 0
        told[name] = json.loads((tmp_path / f"{name}.json").read_text())
        assert tagloom("partition", data, "--k", "3")[0] == 0
    assert told["folder"] == told["shards"]


def test_predict_and_report_look_into_shards_also_at_an_address(tagloom, finished_run, scenes, shards, tmp_path):
    system = fsspec.filesystem("memory")
    system.put(str(shards), "/predict/shards", recursive=True)
    tags = {}
    for name, place in (("folder", scenes / "images"), ("shards", shards), ("address", "memory://predict/shards")):
        assert tagloom("predict", finished_run, place, "--out", tmp_path / f"{name}.csv")[0] == 0
        with (tmp_path / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        tags[name] = {row["image"].rpartition("/")[2]: row["labels"] for row in rows}
    assert len(tags["shards"]) == 60
    assert tags["shards"] == tags["address"]
    assert tags["shards"].items() <= tags["folder"].items()
    system.rm("/predict", recursive=True)
    run = shutil.copytree(finished_run, tmp_path / "run")
    code, _, err = tagloom("report", run, shards, "--out", tmp_path / "report.html")
    assert code == 0, err
    assert (tmp_path / "report.html").read_text().count("<img") > 4
    code, _, err = tagloom("hard", run, shards, "--plot", tmp_path / "hard.png")
    assert code == 0, err


def test_verbs_that_need_files_say_so(tagloom, shards, tmp_path):
    code, _, err = tagloom("keywords", "write", "memory://predict/shards")
    assert (code, "is an address, and this needs files on this disk" in err) == (2, True)
    (tmp_path / "answers.csv").write_text("image,label,answer\n")
    code, _, err = tagloom("doubts", shards, "--apply", tmp_path / "answers.csv", "--out", tmp_path / "better.csv")
    assert code == 2
    assert "Traceback" not in err
