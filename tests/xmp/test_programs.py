"""Real programs read what we write, and we read what they write: Debian's libimage-exiftool-perl and exiv2."""

import json
import os
import shutil
import subprocess

import pytest
from PIL import Image
from sidecars import DOCUMENTS

from tagloom.data.embedded import read_embedded
from tagloom.data.exiftool import ExifTool
from tagloom.data.photo_keywords import embedded_keywords
from tagloom.errors import DataError
from tagloom.xmp.document import read_document
from tagloom.xmp.editing import EMPTY, EMPTY_PACKET, Writing, is_empty_packet, with_tags, without_tags
from tagloom.xmp.keywords import find_keywords
from tagloom.xmp.marks import ScoredTag


def program(name):
    return pytest.mark.skipif(
        shutil.which(name) is None, reason=f"{name} is not installed (apt install {PACKAGES[name]})"
    )


PACKAGES = {"exiftool": "libimage-exiftool-perl", "exiv2": "exiv2"}
WRITING = Writing(
    (ScoredTag("Animals|Dog", 0.9), ScoredTag("café & <bar>", 0.5)), "first", "01", "2026-05-01T10:00:00Z"
)
EXPECTED = {
    "Subject": ["Animals", "Dog", "café & <bar>"],
    "HierarchicalSubject": ["Animals|Dog", "café & <bar>"],
    "TagsList": ["Animals/Dog", "café & <bar>"],
}


def by_exiftool(path):
    """Give the keywords that exiftool finds, by property."""
    command = ["exiftool", "-json", "-XMP:Subject", "-XMP:HierarchicalSubject", "-XMP:TagsList", str(path)]
    done = subprocess.run(command, capture_output=True, check=True)
    found = json.loads(done.stdout)[0]
    return {name: value if isinstance(value, list) else [value] for name, value in found.items() if name in EXPECTED}


def by_exiv2(path):
    """Give the keywords that exiv2 finds, by property."""
    names = dict(zip(("Xmp.dc.subject", "Xmp.lr.hierarchicalSubject", "Xmp.digiKam.TagsList"), EXPECTED, strict=True))
    command = ["exiv2", "-q", "-Pkv", *(part for key in names for part in ("-K", key)), str(path)]
    done = subprocess.run(command, capture_output=True, check=True)
    lines = (line.split(None, 1) for line in done.stdout.decode().splitlines())
    return {names[key]: value.split(", ") for key, value in lines}


@program("exiftool")
def test_exiftool_reads_our_keywords(tmp_path):
    (tmp_path / "a.jpg.xmp").write_bytes(with_tags(EMPTY, "a", WRITING))
    assert by_exiftool(tmp_path / "a.jpg.xmp") == EXPECTED


@program("exiv2")
def test_exiv2_reads_our_keywords(tmp_path):
    (tmp_path / "a.jpg.xmp").write_bytes(with_tags(EMPTY, "a", WRITING))
    assert by_exiv2(tmp_path / "a.jpg.xmp") == EXPECTED


@program("exiftool")
@program("exiv2")
@pytest.mark.parametrize("name", ["darktable", "digiKam", "Lightroom", "exiftool", "nothing in it", "an empty RDF tag"])
def test_both_read_the_same_from_every_form(tmp_path, name):
    path = tmp_path / "a.xmp"
    path.write_bytes(with_tags(DOCUMENTS[name], "a", WRITING))
    found = by_exiftool(path)
    assert found == by_exiv2(path)
    assert set(EXPECTED["Subject"]) <= set(found["Subject"])
    own = set(find_keywords(read_document(DOCUMENTS[name], "a")).own)
    assert {path.split("|")[-1] for path in own} <= set(found["Subject"])


@program("exiftool")
def test_our_keywords_are_removed_after_exiftool_has_written_the_sidecar_anew(tmp_path):
    path = tmp_path / "a.xmp"
    path.write_bytes(with_tags(DOCUMENTS["digiKam"], "a", WRITING))
    subprocess.run(["exiftool", "-q", "-overwrite_original", "-Subject+=lamp", "-Rating=5", str(path)], check=True)
    path.write_bytes(without_tags(path.read_bytes(), "a"))
    found = find_keywords(read_document(path.read_bytes(), "a"))
    assert found.own == ("Boat", "Places|Meer & Küste", "lamp")
    assert found.ours == ()
    assert b"tagloom" not in path.read_bytes()
    assert by_exiftool(path)["Subject"] == ["Meer & Küste", "Boat", "lamp"]


@program("exiv2")
def test_our_keywords_are_removed_after_exiv2_has_written_the_sidecar_anew(tmp_path):
    path = tmp_path / "a.xmp"
    path.write_bytes(with_tags(DOCUMENTS["Lightroom"], "a", WRITING))
    subprocess.run(["exiv2", "-q", "-M", "set Xmp.xmp.Rating 5", str(path)], check=True)
    assert find_keywords(read_document(path.read_bytes(), "a")).ours == ("Animals|Dog", "café & <bar>")
    path.write_bytes(without_tags(path.read_bytes(), "a"))
    assert find_keywords(read_document(path.read_bytes(), "a")).own == ("Holiday",)
    assert by_exiv2(path) == {"Subject": ["Holiday"]}


@program("exiftool")
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_xmp_goes_into_an_image_and_comes_out_again_with_a_backup(tmp_path, suffix):
    photo = tmp_path / f"-a b.{suffix}"
    Image.new("RGB", (40, 30), "red").save(photo)
    before = photo.read_bytes()
    ExifTool().write_xmp(photo, with_tags(EMPTY_PACKET, "a", WRITING))
    assert by_exiftool(photo) == EXPECTED
    assert embedded_keywords(photo).ours == ("Animals|Dog", "café & <bar>")
    assert (tmp_path / f"-a b.{suffix}_original").read_bytes() == before
    assert is_empty_packet(without_tags(read_embedded(photo).xmp, "a"))
    ExifTool().write_xmp(photo, b"")
    assert read_embedded(photo).xmp == b""
    assert (tmp_path / f"-a b.{suffix}_original").read_bytes() == before


@program("exiftool")
def test_we_read_the_iptc_and_xmp_keywords_that_exiftool_writes(tmp_path):
    for suffix, arguments in {
        "jpg": ["-IPTC:Keywords=Kölner Dom", "-IPTC:Keywords=sea", "-IPTC:CodedCharacterSet=UTF8"],
        "tif": ["-IPTC:Keywords=Kölner Dom", "-IPTC:Keywords=sea"],
        "png": ["-XMP:Subject=Kölner Dom", "-XMP:HierarchicalSubject=Places|sea"],
        "webp": ["-XMP:Subject=Kölner Dom", "-XMP:TagsList=Places/sea"],
    }.items():
        photo = tmp_path / f"a.{suffix}"
        Image.new("RGB", (40, 30), "red").save(photo)
        subprocess.run(["exiftool", "-q", "-overwrite_original", *arguments, str(photo)], check=True)
        sea = "sea" if suffix in ("jpg", "tif") else "Places|sea"
        assert set(embedded_keywords(photo).own) == {"Kölner Dom", sea}, suffix


@program("exiftool")
def test_what_exiftool_refuses_is_said_in_its_words(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a.jpg: exiftool could not write it \(Error: .*JPG"):
        ExifTool().write_xmp(tmp_path / "a.jpg", EMPTY_PACKET)
    (tmp_path / "a.bmp").touch()
    with pytest.raises(DataError, match="hold no XMP"):
        ExifTool().write_xmp(tmp_path / "a.bmp", EMPTY_PACKET)


@program("exiftool")
def test_many_images_are_written_by_one_exiftool_and_each_has_its_own_outcome(tmp_path, monkeypatch):
    started = tmp_path / "started"
    wrapper = tmp_path / "bin" / "exiftool"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho once >> "{started}"\nexec "{shutil.which("exiftool")}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    names = ["a.jpg", "broken.jpg", "line\nbreak $HOME @x.jpg", "b.bmp", "-q.jpg", "c.jpg"]
    for name in names:
        Image.new("RGB", (40, 30), "red").save(tmp_path / name)
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    changes = [(tmp_path / name, with_tags(EMPTY_PACKET, name, WRITING)) for name in names]
    errors = ExifTool().write_all(changes)
    assert [bool(error) for error in errors] == [False, True, False, True, False, False]
    assert "broken.jpg: exiftool could not write it (Error: " in errors[1]
    assert "hold no XMP" in errors[3]
    assert all(embedded_keywords(tmp_path / names[number]).ours for number in (0, 2, 4, 5))
    assert started.read_text().split() == ["once"]


@program("exiftool")
def test_a_long_list_is_split_where_a_command_line_would_be_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr("tagloom.data.exiftool.MAX_LINE", 400)
    for number in range(5):
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{number}.png")
    photos = sorted(tmp_path.glob("*.png"))
    assert ExifTool().write_all([(photo, with_tags(EMPTY_PACKET, "a", WRITING)) for photo in photos]) == [""] * 5
    assert all(embedded_keywords(photo).ours for photo in photos)


def test_an_exiftool_that_dies_is_an_error_of_every_image_that_it_did_not_finish(tmp_path, monkeypatch):
    program = tmp_path / "exiftool"
    program.write_text("#!/bin/sh\necho 'tagloom: end of image 0' >&2\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    errors = ExifTool().write_all([(tmp_path / name, b"") for name in ("a.jpg", "b.jpg")])
    assert errors == ["", f"{tmp_path / 'b.jpg'}: exiftool could not write it (Error: it ended with code 9)."]


def test_without_exiftool_a_user_is_told_how_to_install_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="apt install libimage-exiftool-perl"):
        ExifTool()
