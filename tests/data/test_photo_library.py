"""Keywords of photos as labels: read from everywhere, and what is not there says nothing."""

import io
import struct

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tagloom.data import load_table
from tagloom.data.embedded import read_embedded
from tagloom.data.photo_keywords import read_photo_keywords
from tagloom.data.sidecars import editable_sidecars, own_sidecar, write_sidecar
from tagloom.data.writing import write_known_pairs
from tagloom.errors import DataError
from tagloom.xmp.editing import EMPTY, Writing, with_review, with_tags
from tagloom.xmp.marks import ScoredTag


def xmp(*keywords):
    """XMP with keywords of an owner."""
    return with_review(EMPTY, "x", keywords, "").replace(b"<tagloom:Reviewed></tagloom:Reviewed>", b"")


def suggested(data, *tags):
    return with_tags(data, "x", Writing(tuple(ScoredTag(tag, 0.5) for tag in tags), "first", "", "2026-05-01"))


def photo(path, keywords=(), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path, **options)
    if keywords:
        path.with_name(path.name + ".xmp").write_bytes(xmp(*keywords))
    return path


def own(path):
    return read_photo_keywords(path).keywords.own


def marks_of(table):
    targets, known = table.targets(slice(None)), table.known(slice(None))
    rows = np.where(known, targets.astype(int), -1).tolist()
    return {image: dict(zip(table.classes, row, strict=True)) for image, row in zip(table.images, rows, strict=True)}


def iptc(*keywords):
    """The part of a JPEG that holds IPTC keywords."""
    records = b"".join(b"\x1c\x02\x19" + struct.pack(">H", len(word)) + word for word in keywords)
    records += b"\0" * (len(records) % 2)
    block = b"Photoshop 3.0\0" + b"8BIM\x04\x04\0\0" + struct.pack(">I", len(records)) + records
    return b"\xff\xed" + struct.pack(">H", len(block) + 2) + block


def test_xmp_inside_every_format_is_read(tmp_path):
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", xmp("sea").decode())
    packed = PngInfo()
    packed.add_itxt("XML:com.adobe.xmp", xmp("sea").decode(), zip=True)
    photos = [
        photo(tmp_path / "a.jpg", xmp=xmp("sea")),
        photo(tmp_path / "a.webp", xmp=xmp("sea")),
        photo(tmp_path / "a.png", pnginfo=info),
        photo(tmp_path / "b.png", pnginfo=packed),
        photo(tmp_path / "a.tif", tiffinfo={700: xmp("sea")}),
    ]
    assert [own(path) for path in photos] == [("sea",)] * 5


def test_iptc_keywords_are_read(tmp_path):
    path = photo(tmp_path / "a.jpg")
    data = path.read_bytes()
    path.write_bytes(data[:2] + iptc("Köln".encode(), b"M\xfcnchen", b" ") + data[2:])
    assert own(path) == ("Köln", "München")


def test_xmp_that_unpacks_to_gigabytes_is_refused(tmp_path):
    import zlib

    chunk = b"iTXtXML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(b" " * (64 * 2**20), 9)
    end = b"\0\0\0\0IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + end
    (tmp_path / "a.png").write_bytes(bomb)
    with pytest.raises(DataError, match="unpacks to more"):
        read_embedded(tmp_path / "a.png")


def test_the_sidecar_is_the_one_that_is_there_and_belongs_to_no_other_file(tmp_path):
    path = photo(tmp_path / "a.jpg")
    assert own_sidecar(path) == tmp_path / "a.jpg.xmp"
    (tmp_path / "a.xmp").write_bytes(xmp("sea"))
    assert own_sidecar(path) == tmp_path / "a.xmp"
    (tmp_path / "a.NEF").touch()  # then a.xmp is the raw file's
    assert own_sidecar(path) == tmp_path / "a.jpg.xmp"
    assert editable_sidecars(path) == []
    assert own(path) == ("sea",)  # of the same picture all the same


def test_a_sidecar_that_is_a_link_stays_one_and_keeps_its_permissions(tmp_path):
    (tmp_path / "real.xmp").write_bytes(xmp("sea"))
    (tmp_path / "real.xmp").chmod(0o640)
    (tmp_path / "a.jpg.xmp").symlink_to(tmp_path / "real.xmp")
    write_sidecar(tmp_path / "a.jpg.xmp", xmp("sky"))
    assert (tmp_path / "a.jpg.xmp").is_symlink()
    assert (tmp_path / "real.xmp").read_bytes() == xmp("sky")
    assert (tmp_path / "real.xmp").stat().st_mode & 0o777 == 0o640


def test_absent_keywords_are_unknown_unless_the_photo_was_reviewed(tmp_path):
    photo(tmp_path / "2019" / "a.jpg", ["dog", "sea"])
    photo(tmp_path / "2020" / "may" / "b.jpg", ["Dog"])
    (photo(tmp_path / "c.jpg").with_name("c.jpg.xmp")).write_bytes(with_review(EMPTY, "x", ["sea"], "2026-05-01"))
    photo(tmp_path / "d.jpg")
    table = load_table(tmp_path, min_count=1)
    assert marks_of(table) == {
        "2019/a.jpg": {"dog": 1, "sea": 1},
        "2020/may/b.jpg": {"dog": 1, "sea": -1},
        "c.jpg": {"dog": 0, "sea": 1},
        "d.jpg": {"dog": -1, "sea": -1},
    }
    negative = load_table(tmp_path, min_count=1, absent="negative")
    assert marks_of(negative)["d.jpg"] == {"dog": 0, "sea": 0}
    said = "; ".join(table.understood)
    assert "3 of 4 photos have keywords of their owner, 3 have a sidecar, 1 were reviewed" in said
    assert "a keyword that a photo lacks says nothing" in said


def test_keywords_of_ours_are_not_learned_from_until_somebody_confirms_them(tmp_path):
    for name in "ab":
        photo(tmp_path / f"{name}.jpg", ["dog", "sea"])
    written = suggested(xmp("dog"), "sea")
    photo(tmp_path / "c.jpg").with_name("c.jpg.xmp").write_bytes(written)
    assert marks_of(load_table(tmp_path, min_count=1))["c.jpg"] == {"dog": 1, "sea": -1}
    assert marks_of(load_table(tmp_path, min_count=1, absent="negative"))["c.jpg"] == {"dog": 1, "sea": -1}
    rejected = written.replace(b"<rdf:li>sea</rdf:li>", b"")
    (tmp_path / "c.jpg.xmp").write_bytes(rejected)
    assert marks_of(load_table(tmp_path, min_count=1))["c.jpg"] == {"dog": 1, "sea": 0}
    (tmp_path / "c.jpg.xmp").write_bytes(with_review(written, "x", ["sea", "dog"], "2026-05-02"))
    assert marks_of(load_table(tmp_path, min_count=1))["c.jpg"] == {"dog": 1, "sea": 1}


def test_hierarchies_become_a_tree(tmp_path):
    photo(tmp_path / "a.jpg", ["Animals|Dog|Husky"])
    photo(tmp_path / "b.jpg", ["Animals|Dog"])
    photo(tmp_path / "c.jpg", ["Animals|Cat", "Dog"])
    table = load_table(tmp_path, min_count=2)
    assert table.classes == ("Animals", "Animals|Dog")  # also where a photo has only a rare keyword below them
    assert marks_of(table) == {
        "a.jpg": {"Animals": 1, "Animals|Dog": 1},
        "b.jpg": {"Animals": 1, "Animals|Dog": 1},
        "c.jpg": {"Animals": 1, "Animals|Dog": -1},
    }
    assert table.tree.levels.tolist() == [1, 2]


def test_options_choose_keywords(tmp_path):
    for name in "ab":
        photo(tmp_path / f"{name}.jpg", ["People|Anna", "Animals|Dog", "sea"])
    photo(tmp_path / "c.jpg", ["sky"])
    assert load_table(tmp_path, min_count="2", exclude="people").classes == ("Animals", "Animals|Dog", "sea")
    assert load_table(tmp_path, min_count=1, include="s*").classes == ("sea", "sky")
    assert load_table(tmp_path, min_count=1, include=["Animals"]).classes == ("Animals", "Animals|Dog")
    with pytest.raises(DataError, match=r"no keyword is left: 6 were found.*min_count=1"):
        load_table(tmp_path)
    with pytest.raises(DataError, match="min_count must be a whole number"):
        load_table(tmp_path, min_count="many")
    with pytest.raises(DataError, match="absent must be 'unknown' or 'negative'"):
        load_table(tmp_path, absent="maybe")


def test_class_folders_stay_class_folders_where_only_we_wrote_keywords(tmp_path):
    for name in ("cat", "dog"):
        photo(tmp_path / name / "a.jpg")
        (tmp_path / name / "a.jpg.xmp").write_bytes(suggested(EMPTY, "sofa"))
    assert load_table(tmp_path).classes == ("cat", "dog")


def test_damaged_metadata_is_counted_and_stops_nothing(tmp_path):
    photo(tmp_path / "a.jpg", ["sea"])
    photo(tmp_path / "b.jpg").with_name("b.jpg.xmp").write_bytes(b"<x>")
    (tmp_path / "c.jpg").write_bytes(b"\xff\xd8\xff")
    table = load_table(tmp_path, min_count=1)
    assert len(table) == 3
    assert any("2 times metadata could not be read, first:" in line for line in table.understood)
    assert "no pair is negative" in table.understood[-1]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("absent", ["unknown", "negative"])
def test_a_written_table_says_the_same(tmp_path, suffix, absent):
    photo(tmp_path / "p" / "a.jpg", ["Animals|Dog", "a, b", "sea"])
    photo(tmp_path / "p" / "b.jpg", ["sea"])
    photo(tmp_path / "p" / "c.jpg").with_name("c.jpg.xmp").write_bytes(with_review(EMPTY, "x", ["sea"], "2026"))
    table = load_table(tmp_path / "p", min_count=1, absent=absent)
    out = write_known_pairs(table, tmp_path / "p" / f"labels{suffix}")
    assert marks_of(load_table(out)) == marks_of(table)


def test_a_keyword_that_is_a_formula_does_not_become_the_name_of_a_column(tmp_path):
    photo(tmp_path / "a.jpg", ["=1+1", "sea"])
    table = load_table(tmp_path, min_count=1)
    with pytest.raises(DataError, match=r"a spreadsheet would take '=1\+1' for a formula"):
        write_known_pairs(table, tmp_path / "labels.csv")
    assert not (tmp_path / "labels.csv").exists()
    assert load_table(write_known_pairs(table, tmp_path / "labels.jsonl")).classes == table.classes


def test_reading_metadata_decodes_no_pixels(tmp_path):
    """A picture that is cut off after its header still has its keywords."""
    stream = io.BytesIO()
    Image.effect_noise((600, 600), 80).convert("RGB").save(stream, "JPEG", xmp=xmp("sea"))
    (tmp_path / "a.jpg").write_bytes(stream.getvalue()[: len(stream.getvalue()) // 2])
    assert own(tmp_path / "a.jpg") == ("sea",)
