"""WebDataset tars are tables: labels from .json, .cls or .txt, and pictures read from where they lie."""

import io
import json
import os
import tarfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.data import load_table
from tagloom.data.formats.webdataset import read_webdataset
from tagloom.data.images import read_image
from tagloom.data.packed import tars
from tagloom.data.packed.packing import pack
from tagloom.errors import DataError, ImageError, TagloomError


def picture(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def tar_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def as_json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_lists_in_json_are_labels_and_tars_pack_into_shards(tmp_path):
    pytest.importorskip("pyarrow")
    for number in range(3):
        members = {}
        for row in range(2):
            members[f"{row}.png"] = picture(2 * number + row)
            members[f"{row}.json"] = as_json(width=8, labels=["cat", f"no {number}"][: row + 1])
        tar_of(tmp_path / f"photos-{number:03}.tar", members)
    table = load_table(tmp_path / "photos-{000..002}.tar")
    assert table.classes == ("cat", "no 0", "no 1", "no 2")
    assert table.images == [
        "0.png",
        "1.png",
        "photos-001/2/0.png",
        "photos-001/3/1.png",
        "photos-002/4/0.png",
        "photos-002/5/1.png",
    ]
    assert table.targets([0, 3]).tolist() == [[1, 0, 0, 0], [1, 0, 1, 0]]
    assert [read_image(table.image(row)) for row in range(6)] == [picture(row) for row in range(6)]
    several = read_webdataset([str(path) for path in sorted(tmp_path.glob("*.tar"))])
    assert several.fingerprint() == load_table(tmp_path).fingerprint() == table.fingerprint()
    pack(table, tmp_path / "shards")
    packed = load_table(tmp_path / "shards")
    assert packed.fingerprint() == table.fingerprint()
    assert [read_image(packed.image(row)) for row in range(6)] == [picture(row) for row in range(6)]


@pytest.mark.parametrize(
    ("suffix", "cells", "classes", "second"),
    [
        ("cls", [b"7", b"12", b"7"], ("12", "7"), [1, 0]),
        ("txt", [b"cat\nsofa\n", b"dog", b""], ("cat", "dog", "sofa"), [0, 1, 0]),
        ("txt", [b"cat, sofa", b"dog, cat", b"dog"], ("cat", "dog", "sofa"), [1, 1, 0]),
        ("json", [as_json(tags=["cat"]), as_json(tags=[]), as_json(tags=None)], ("cat",), [0]),
        ("json", [b'["cat", "dog"]', b'["dog"]', b"[]"], ("cat", "dog"), [0, 1]),
    ],
)
def test_labels_are_in_a_file_of_the_same_key(tmp_path, suffix, cells, classes, second):
    members = {}
    for row, cell in enumerate(cells):
        members |= {f"a/{row}.jpg": picture(row), f"a/{row}.{suffix}": cell, f"a/{row}.seg.npy": b"not looked at"}
    table = load_table(tar_of(tmp_path / "t.tar", members))
    assert table.classes == classes
    assert table.targets([1])[0].tolist() == second


def test_a_field_of_the_json_can_be_chosen(tmp_path):
    path = tar_of(tmp_path / "t.tar", {"0.jpg": picture(0), "0.json": as_json(seen=["cat"], caption="A cat.")})
    with pytest.raises(DataError, match=r"in no known field of its JSON. Fields: 'seen', 'caption'. Choose one with"):
        load_table(path)
    assert load_table(path, label_column="seen").classes == ("cat",)


def test_hostile_tars_raise_only_our_errors(tmp_path, fuzz_rounds):
    with pytest.raises(DataError, match="has 2,000,000 bytes, more than labels need"):
        load_table(tar_of(tmp_path / "a.tar", {"0.jpg": picture(0), "0.txt": bytes(2_000_000)}))
    with pytest.raises(DataError, match="no sample has labels"):
        load_table(tar_of(tmp_path / "b.tar", {"0.jpg": picture(0)}))
    with pytest.raises(DataError, match="holds no image"):
        load_table(tar_of(tmp_path / "c.tar", {"0.txt": b"cat"}))
    with pytest.raises(DataError, match="is a second image of one key"):
        load_table(tar_of(tmp_path / "d.tar", {"0.jpg": picture(0), "0.png": picture(1), "0.txt": b"cat"}))
    with pytest.raises(DataError, match="cannot be read"):
        load_table(tar_of(tmp_path / "e.tar", {"0.jpg": picture(0), "0.json": b"{"}))
    with pytest.raises(DataError, match="Write a list of names"):
        load_table(tar_of(tmp_path / "f.tar", {"0.jpg": picture(0), "0.json": as_json(labels={"cat": 1})}))
    with pytest.raises(DataError, match=r"only if all are \.tar files"):
        read_webdataset([str(tmp_path / "a.tar"), "photos.csv"])
    with pytest.raises(DataError, match="cannot be read as a tar"):
        load_table(tmp_path / "x-{0..3}.tar")

    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for name, target in (("0.jpg", "/etc/passwd"), ("../../1.jpg", None), ("1.txt", None)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = (tarfile.SYMTYPE, target) if target else (tarfile.REGTYPE, "")
            archive.addfile(info, io.BytesIO(b""))
    with pytest.raises(DataError, match="no sample has labels"):  # the link is no image, and keys have folders
        load_table(path)

    good = tar_of(tmp_path / "good.tar", {"0.jpg": picture(0), "0.txt": b"cat", "1.jpg": picture(1), "1.txt": b"dog"})
    table = load_table(good)
    os.truncate(good, 700)
    with pytest.raises(ImageError, match="its tar ends inside of it"):
        read_image(table.image(1))
    data, rng = tar_of(good, {"0.jpg": picture(0), "0.txt": b"cat"}).read_bytes(), np.random.default_rng()
    for _ in range(fuzz_rounds(500)):
        changed = bytearray(data)
        for place in rng.integers(0, 2048, 4).tolist():
            changed[place] = int(rng.integers(0, 256))
        good.write_bytes(changed[: int(rng.integers(1, len(data)))] if rng.random() < 0.2 else changed)
        with suppress(TagloomError):
            read_image(load_table(good).image(0))


def test_a_tar_that_leads_back_to_itself_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tars, "MAX_SAMPLES", 1000)  # at its real value, this takes an hour
    header = bytearray(tarfile.TarInfo("other.bin").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" + (256**11 - 512).to_bytes(11, "big")  # the size: -512
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    first = tarfile.TarInfo("0.bin").tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "back.tar").write_bytes(first + bytes(header) + bytes(1024))
    with pytest.raises(DataError, match="claims -512 bytes"):
        load_table(tmp_path / "back.tar")
