"""Files and folders are found, tagged in order, and their tags written whole or not at all."""

import csv
import io
import json
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.errors import DataError, ImageError
from tagloom.predict.files import Job, Naming, Renaming, collect_images
from tagloom.predict.from_scores import write_tags_from_scores
from tagloom.predict.inputs import find_inputs
from tagloom.predict.tag_files import check_tag_file, write_rows, writing
from tagloom.predict.tagger import Tag, Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec

ROWS = [(Path("a.jpg"), [Tag("cat", 0.91234), Tag("a, b", 0.5)]), (Path("ü.jpg"), [])]


def write_tags(rows: Iterable[tuple[Path, list[Tag]]], out: Path) -> int:
    """Write the tags of image files as a prediction does."""
    check_tag_file(out)
    naming = Naming(out.parent)
    with writing(out):
        return write_rows(((naming.path(image), tags) for image, tags in rows), out)


def brightness_tagger() -> Tagger:
    """Says "bright" of what is bright and "dark" of what is dark."""
    spec = TaggerSpec(("bright", "dark"), Preprocess(size=32), "x", "gap")

    def run(pictures):
        level = pictures.reshape(len(pictures), -1).mean(1) / 16 - 8
        return np.stack([level, -level], 1).astype(np.float32)

    return Tagger(spec, run, "onnx")


@pytest.fixture
def pictures(tmp_path) -> Path:
    folder = tmp_path / "pictures"
    (folder / "deep" / "er").mkdir(parents=True)
    for name, level in (("b.png", 250), ("a.png", 5), ("deep/er/c.jpg", 250)):
        Image.new("RGB", (9, 9), (level,) * 3).save(folder / name)
    (folder / "notes.doc").write_text("not a picture")
    return folder


def test_folders_are_searched_to_the_bottom_and_files_taken_as_they_are(pictures):
    found = collect_images([pictures / "notes.doc", pictures])
    assert found == [pictures / name for name in ("notes.doc", "a.png", "b.png", "deep/er/c.jpg")]


def test_a_picture_that_is_named_twice_is_tagged_once(pictures):
    assert collect_images([pictures / "b.png", pictures, pictures / "b.png"]).count(pictures / "b.png") == 1


def test_a_folder_without_pictures_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no image in this folder"):
        collect_images([tmp_path])


def test_tags_come_in_order_with_what_is_wrong_in_its_place(pictures):
    paths = [pictures / "b.png", pictures / "notes.doc", pictures / "a.png", pictures / "gone.png"]
    results = list(Job(brightness_tagger(), paths).tags())
    assert [image.place for image, _ in results] == paths
    assert [tag.label for tag in results[0][1].tags] == ["bright"]
    assert isinstance(results[1][1], ImageError)
    assert [tag.label for tag in results[2][1].tags] == ["dark"]
    assert results[3][1].reason == "missing"


def test_the_rule_decides_on_the_tags(pictures):
    tagger = brightness_tagger()
    for rule, count in ((tagger.rule(top_k=2), 2), (tagger.rule(threshold=1.0), 0), (tagger.rule(), 1)):
        ((_, found),) = Job(tagger, [pictures / "b.png"], rule=rule).tags()
        assert len(found.tags) == count
        assert found.best.label == "bright", "whether it is a tag or not"


def test_csv_comes_back_as_it_went(tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    assert write_tags(iter(ROWS), tmp_path / "new" / "tags.csv") == 2
    with (tmp_path / "new" / "tags.csv").open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert first == {"image": "a.jpg", "labels": 'cat|"a, b"', "scores": "0.9123|0.5000"}
    assert second == {"image": "ü.jpg", "labels": "", "scores": ""}


def test_json_lines_come_back_as_they_went(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_tags(iter(ROWS), tmp_path / "tags.jsonl") == 2
    first, second = map(json.loads, (tmp_path / "tags.jsonl").read_text(encoding="utf-8").splitlines())
    assert first == {
        "image": "a.jpg",
        "tags": [{"label": "cat", "score": 0.9123}, {"label": "a, b", "score": 0.5}],
    }
    assert second == {"image": "ü.jpg", "tags": []}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_run_that_breaks_leaves_the_file_of_before(tmp_path, suffix):
    path = tmp_path / f"tags{suffix}"
    path.write_text("the one before")

    def breaking():
        yield ROWS[0]
        raise RuntimeError("the power went")

    with pytest.raises(RuntimeError, match="power"):
        write_tags(breaking(), path)
    assert path.read_text() == "the one before"
    assert list(tmp_path.iterdir()) == [path]


def test_another_ending_is_refused_before_any_work(tmp_path):
    def untouched():
        pytest.fail("pictures were tagged")
        yield

    with pytest.raises(DataError, match=r"\.csv, \.jsonl or \.parquet"):
        write_tags(untouched(), tmp_path / "tags.txt")


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"tags\.csv: cannot be written"):
        write_tags(iter(ROWS), tmp_path / "file" / "tags.csv")


@pytest.mark.parametrize("name", ["tags.csv", "tags.parquet"])
def test_a_table_of_tags_reads_back_wherever_it_lies(tmp_path, monkeypatch, name):
    from PIL import Image

    from tagloom.data import load_table

    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a.png")
    monkeypatch.chdir(tmp_path)
    write_tags([(Path("photos/a.png"), [Tag("odd|name", 0.5), Tag("cat", 0.25)])], Path("lists") / name)
    table = load_table(tmp_path / "lists" / name, separator="|")
    assert table.path(0).is_file()
    assert table.classes == ("cat", "odd|name")


INSIDE = ["../x.png", "a/../../b.png", "/etc/c.png", "./d.png", "e//f.png", "g.zip/../h.png", "plain.png"]


def encoded(level: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (9, 9), (level,) * 3).save(stream, "png")
    return stream.getvalue()


def write_container(path: Path) -> Path:
    """Write an archive or a Parquet file whose names look like paths that lead elsewhere."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in INSIDE:
                archive.writestr(name, encoded(250))
    elif path.suffix == ".tar":
        with tarfile.open(path, "w") as tar:
            for name in INSIDE:
                member = tarfile.TarInfo(name)
                member.size = len(encoded(250))
                tar.addfile(member, io.BytesIO(encoded(250)))
    else:
        import pyarrow as pa
        from pyarrow import parquet

        cells = [{"bytes": encoded(250), "path": name} for name in INSIDE]
        parquet.write_table(pa.table({"image": cells}), path)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.zip", "t.tar"])
def test_names_inside_a_container_are_no_paths(tmp_path, name):
    parquet = pytest.importorskip("pyarrow.parquet")
    container = write_container(tmp_path / "data" / name)
    tags, scores = tmp_path / "a" / "tags.parquet", tmp_path / "b" / "deep" / "scores.parquet"
    assert Job(brightness_tagger(), [container], tags, scores).run() == (len(INSIDE), 0)
    inside = [entry.inside for entry in find_inputs([container])]
    assert parquet.read_table(tags)["image"].to_pylist() == [f"../data/{name}/{image}" for image in inside]
    assert parquet.read_table(scores)["image"].to_pylist() == [f"../../data/{name}/{image}" for image in inside]
    write_tags_from_scores([scores], tmp_path / "a" / "again.parquet")
    assert parquet.read_table(tmp_path / "a" / "again.parquet")["image"] == parquet.read_table(tags)["image"]


def test_a_folder_that_is_called_like_an_archive_holds_files(tmp_path):
    (tmp_path / "a" / "old.zip").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    rename = Renaming(tmp_path / "a", tmp_path / "b")
    assert rename("old.zip/../x.png") == "../a/x.png"
    assert rename("gone.zip/../x.png") == "../a/gone.zip/../x.png"
