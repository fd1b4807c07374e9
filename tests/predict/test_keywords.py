"""Tags become keywords in sidecars: whole or not at all, again and again, and never in the photo unless asked."""

import json
import shutil
from dataclasses import replace

import pytest
from PIL import Image
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.data import load_table
from tagloom.errors import DataError
from tagloom.predict.keywords import Place, chosen_tags, remove_keywords, write_keywords
from tagloom.predict.tagger import load
from tagloom.tagger.spec import read_spec, write_spec
from tagloom.xmp.document import read_document
from tagloom.xmp.keywords import find_keywords
from tagloom.xmp.marks import read_marks

needs_exiftool = pytest.mark.skipif(
    shutil.which("exiftool") is None, reason="exiftool is not installed (apt install libimage-exiftool-perl)"
)
LIGHTROOM = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:subject><rdf:Bag>
   <rdf:li>Holiday</rdf:li>
  </rdf:Bag></dc:subject></rdf:Description>
</rdf:RDF></x:xmpmeta>"""


@pytest.fixture
def run(untrained_run, tmp_path):
    """A tagger that gives every picture all of its five labels, in a small tree."""
    folder = shutil.copytree(untrained_run, tmp_path / "run")
    spec = read_spec(folder)
    write_spec(replace(spec, thresholds=(0.0,) * 5, parents={"dog": "cat", "car": "tree"}), folder)
    return folder


@pytest.fixture
def photos(tmp_path):
    """Four photos: one with a sidecar of Lightroom, and one that is damaged."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, name in enumerate(("a.jpg", "b.jpg", "c.png")):
        Image.new("RGB", (40, 30), (60 * number, 90, 30)).save(folder / name)
    (folder / "b.xmp").write_bytes(LIGHTROOM)
    (folder / "d.jpg").write_bytes(b"\xff\xd8\xff no photo")
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def keywords(path):
    return find_keywords(read_document(path.read_bytes(), str(path)))


def outcomes(results):
    return {result.photo.name: result.outcome for result in results}


def test_keywords_are_written_and_removed_and_photos_never_change(run, photos):
    before = contents(photos)
    paths = sorted(photos.glob("*.[jp]*g"))
    found = outcomes(write_keywords(load(run), paths))
    assert found == {"a.jpg": "written", "b.jpg": "written", "c.png": "written", "d.jpg": "failed"}
    after = contents(photos)
    assert set(after) == set(before) | {"a.jpg.xmp", "c.png.xmp"}
    assert all(after[name] == data for name, data in before.items() if not name.endswith(".xmp"))
    assert keywords(photos / "b.xmp").own == ("Holiday",)
    assert set(keywords(photos / "b.xmp").ours) == {"cat|dog", "sofa", "tree|car"}
    assert outcomes(remove_keywords(paths)) == {
        "a.jpg": "removed", "b.jpg": "removed", "c.png": "removed", "d.jpg": "unchanged",
    }  # fmt: skip
    assert contents(photos) == before


def test_writing_again_changes_nothing_and_resuming_looks_at_no_photo_again(run, photos):
    tagger, paths = load(run), [photos / "a.jpg", photos / "b.jpg"]
    list(write_keywords(tagger, paths[:1]))
    before = contents(photos)
    assert outcomes(write_keywords(tagger, paths[:1])) == {"a.jpg": "unchanged"}
    assert contents(photos) == before
    assert outcomes(write_keywords(tagger, paths, resume=True)) == {"a.jpg": "skipped", "b.jpg": "written"}
    assert outcomes(write_keywords(tagger, paths, max_tags=1, resume=True)) == {"a.jpg": "written", "b.jpg": "written"}
    assert len(keywords(photos / "a.jpg.xmp").ours) == 1


def test_the_best_tags_are_chosen_as_paths_and_a_path_says_what_is_above_it(run):
    import numpy as np

    tagger = load(run)  # cat, dog, sofa, car, tree
    scores = np.float32([0.9, 0.3, 0.5, 0.2, 0.8])
    assert [tag.path for tag in chosen_tags(tagger, tagger.rule(), scores, 8)] == ["sofa", "cat|dog", "tree|car"]
    assert [tag.path for tag in chosen_tags(tagger, tagger.rule(), scores, 2)] == ["sofa", "cat|dog"]


def test_a_sidecar_that_is_damaged_is_left_as_it_is(run, photos):
    (photos / "a.jpg.xmp").write_bytes(b"<damaged")
    (result,) = write_keywords(load(run), [photos / "a.jpg"])
    assert result.outcome == "failed"
    assert "not well-formed" in result.error
    assert (photos / "a.jpg.xmp").read_bytes() == b"<damaged"


def test_what_is_stopped_halfway_leaves_whole_sidecars_and_continues(run, photos):
    tagger, paths = load(run), [photos / "a.jpg", photos / "b.jpg", photos / "c.png"]
    next(results := write_keywords(tagger, paths))
    results.close()
    assert (photos / "a.jpg.xmp").exists()
    assert (photos / "b.xmp").read_bytes() == LIGHTROOM
    assert not list(photos.glob("*.partial"))
    assert list(outcomes(write_keywords(tagger, paths, resume=True)).values()).count("written") == 2


def test_a_dry_run_shows_the_difference_and_changes_nothing(run, photos):
    before = contents(photos)
    (result,) = write_keywords(load(run), [photos / "b.jpg"], place=Place(dry_run=True))
    assert any("+" in line and "<rdf:li>sofa</rdf:li>" in line for line in result.diff)
    assert not any(line.startswith("-") for line in result.diff[2:])
    assert contents(photos) == before


def invoke(*arguments):
    return CliRunner().invoke(app, ["keywords", *map(str, arguments)])


def test_the_command_writes_reads_and_removes(run, photos, tmp_path):
    done = invoke("write", run, photos, "--dry-run")
    assert done.exit_code == 0
    assert "+     <rdf:li>sofa</rdf:li>" in done.output
    assert "3 would be written, 1 left as they are" in done.output
    done = invoke("write", run, photos, "--max-tags", 2)
    assert "Photos: 3 written, 1 left as they are" in done.output
    assert "left as it is: " in done.output
    assert len(read_marks(read_document((photos / "a.jpg.xmp").read_bytes(), "a")).tags) == 2
    done = invoke("read", photos, "--out", tmp_path / "labels.csv", "--min-count", 1)
    assert done.exit_code == 0, done.output
    assert load_table(tmp_path / "labels.csv").classes == ("Holiday",)
    assert "nobody confirmed" in done.output
    done = invoke("remove", photos)
    assert "Photos: 3 cleaned, 1 unchanged" in done.output


def test_the_command_fails_where_nothing_can_be_tagged(run, photos):
    assert invoke("write", run, photos / "d.jpg").exit_code == 1


@needs_exiftool
def test_a_photo_that_is_not_there_is_named_and_is_no_success(photos):
    result = CliRunner().invoke(app, ["keywords", "remove", str(photos / "nope.jpg")])
    assert result.exit_code == 1
    assert "nope.jpg: no such file" in " ".join(result.output.split())


def test_keywords_of_tagloom_alone_teach_nothing_and_the_message_says_why(run, photos, tmp_path):
    (photos / "b.xmp").unlink()
    (photos / "d.jpg").unlink()
    list(write_keywords(load(run), sorted(photos.glob("*.*g"))))
    result = CliRunner().invoke(app, ["keywords", "read", str(photos), "--out", str(tmp_path / "labels.csv")])
    assert isinstance(result.exception, DataError)
    assert "were written by Tagloom" in str(result.exception)
    assert "tagloom review" in str(result.exception)


def test_only_when_asked_keywords_go_into_photos(run, photos):
    before = contents(photos)
    done = invoke("write", run, photos / "a.jpg", photos / "c.png", "--embed")
    assert "2 written" in done.output
    assert {name for name in contents(photos) if name not in before} == {"a.jpg_original", "c.png_original"}
    assert (photos / "a.jpg_original").read_bytes() == before["a.jpg"]
    done = invoke("remove", photos)
    assert "2 photos hold keywords of Tagloom inside. Take them out with --embed" in done.output
    assert "2 cleaned" in invoke("remove", photos, "--embed").output
    assert "inside" not in invoke("remove", photos).output


def test_a_folder_of_photos_with_keywords_is_a_table_to_check(photos, tmp_path):
    for name in ("a.jpg.xmp", "c.png.xmp"):
        (photos / name).write_bytes(LIGHTROOM)
    done = CliRunner().invoke(
        app, ["check", str(photos), "--data-option", "min_count=1", "--json", str(tmp_path / "check.json")]
    )
    said = json.loads((tmp_path / "check.json").read_text())["understood"]
    assert any("says nothing" in line for line in said)
    assert "a photo library" in done.output
