"""Odd names of files and labels: written so that they are read back, and harmless to spreadsheets."""

import csv
import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from PIL import Image

from tagloom.data import load_table
from tagloom.errors import DataError
from tagloom.predict.files import Naming, collect_images
from tagloom.predict.tag_files import check_tag_file, write_rows, writing
from tagloom.predict.tagger import Tag

FORMULAS = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "=cmd|'/c calc'!A0")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs names of any bytes, and links")

# What the file system can hold: any bytes but / and 0, which Python decodes with surrogates.
file_names = st.binary(min_size=1, max_size=20).filter(lambda name: not {b"/"[0], 0} & set(name)).map(os.fsdecode)
tricky_names = st.lists(st.sampled_from(["\\", "u", "dc", "ff", "005c", "=", '"', "\n", "\r", ",", "a"]), min_size=1)
any_names = (file_names | tricky_names.map("".join)).filter(lambda name: name not in (".", ".."))
labels = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=8)
odd_labels = st.sampled_from(FORMULAS) | labels


def write_tags(rows: Iterable[tuple[Path, list[Tag]]], out: Path) -> int:
    """Write the tags of image files as a prediction does."""
    check_tag_file(out)
    naming = Naming(out.parent)
    with writing(out):
        return write_rows(((naming.path(image), tags) for image, tags in rows), out)


def cells(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


@on_linux
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_file_name_that_is_not_utf_8_is_written_and_found_again(tmp_path: Path, suffix: str) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in (b"1.png", b"caf\xe9.png", b"4\xff.png", rb"a\udcff.png", b"line\nbreak.png", b"=1+1.png"):
        Image.new("RGB", (4, 4)).save(photos / os.fsdecode(name))
    paths = collect_images([photos])
    out = photos / f"tags{suffix}"
    assert write_tags([(path, [Tag("cat", 0.5)]) for path in paths], out) == 6
    if suffix != ".jsonl":
        table = load_table(out)
        found = [table.path(row) for row in range(len(table))]
    else:
        found = [photos / json.loads(line)["image"] for line in out.read_text(encoding="utf-8").splitlines()]
    assert found == paths
    assert all(path.is_file() for path in found)


@on_linux
@hypothesis.given(any_names)
def test_any_file_name_is_read_back(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("names")
    write_tags([(folder / name, [Tag("cat", 0.5)])], folder / "tags.csv")
    table = load_table(folder / "tags.csv")
    assert table.path(0) == folder / name
    assert not any(cell.startswith(tuple("=+-@\t\r")) for cell in cells(folder / "tags.csv"))
    shutil.rmtree(folder)


@hypothesis.given(st.lists(odd_labels, min_size=1, max_size=4, unique=True))
def test_any_label_is_read_back_and_is_no_formula(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("labels")
    write_tags([(folder / "a.jpg", [Tag(name, 0.5) for name in names])], folder / "tags.csv")
    assert not any(cell.startswith(tuple("=+-@\t\r")) for cell in cells(folder / "tags.csv"))
    assert set(load_table(folder / "tags.csv", separator="|").classes) == set(names)
    shutil.rmtree(folder)


@pytest.mark.parametrize("label", FORMULAS)
def test_a_formula_as_the_only_label_is_read_back_without_being_told_the_separator(tmp_path: Path, label: str) -> None:
    write_tags([(tmp_path / "a.jpg", [Tag(label, 0.5)])], tmp_path / "tags.csv")
    assert load_table(tmp_path / "tags.csv").classes == (label,)
    assert cells(tmp_path / "tags.csv")[4].startswith('"')


@on_linux
def test_a_class_folder_that_is_not_utf_8_is_refused_before_any_work(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    Image.new("RGB", (4, 4)).save(folder / "1.png")
    with pytest.raises(DataError, match=r"must be UTF-8 text.*'caf\\udce9'.*Rename"):
        load_table(tmp_path)


def test_a_label_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.jsonl").write_text('{"image": "a.jpg", "labels": ["\\ud800"]}\n')
    with pytest.raises(DataError, match=r"must be UTF-8 text.*'\\ud800'"):
        load_table(tmp_path / "table.jsonl")


@on_linux
def test_a_link_is_named_and_not_what_it_points_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "cache" / "0af3", format="PNG")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").symlink_to("../cache/0af3")
    (tmp_path / "linked").symlink_to("photos")
    (tmp_path / "lists").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "shortcut").symlink_to("deep/er")
    monkeypatch.chdir(tmp_path)
    for image, out, wanted in [
        ("photos/cat.png", "tags.csv", "photos/cat.png"),
        ("linked/cat.png", "tags.csv", "linked/cat.png"),
        ("linked/cat.png", "lists/tags.csv", "../linked/cat.png"),
        ("linked/cat.png", "linked/tags.csv", "cat.png"),
        ("photos/cat.png", "linked/tags.csv", "cat.png"),
        ("photos/cat.png", "shortcut/tags.csv", "../../photos/cat.png"),
        ("shortcut/../../photos/cat.png", "tags.csv", "photos/cat.png"),
        (str(tmp_path / "photos/cat.png"), "lists/../tags.csv", "photos/cat.png"),
        ("photos/cat.png", str(tmp_path / "lists/tags.csv"), "../photos/cat.png"),
    ]:
        write_tags([(Path(image), [Tag("cat", 0.5)])], Path(out))
        assert cells(Path(out))[3] == wanted, (image, out)
        assert load_table(out).path(0).resolve() == tmp_path / "cache" / "0af3"


def test_a_file_on_another_drive_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_way(path: str, start: str) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(os.path, "relpath", no_way)
    image = tmp_path / "photos" / "a.png"
    assert Naming(tmp_path / "lists").path(image) == image.as_posix()
    write_tags([(image, [Tag("cat", 0.5)])], tmp_path / "lists" / "tags.csv")
    assert load_table(tmp_path / "lists" / "tags.csv").path(0) == image
