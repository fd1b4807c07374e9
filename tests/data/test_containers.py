"""Images in archives and Parquet files: all of them are read, and what cannot be read is named in its place."""

import gzip
import io
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from tagloom.data import containers
from tagloom.data.containers import count_members, is_container, members_of
from tagloom.data.reading import Encoded, read_pictures
from tagloom.errors import DataError, ImageError
from tagloom.recipe.pictures import Preprocess

NAMES = ["b.png", "deep/er/a.png", "../../etc/passwd.png", "/abs.PNG", "b.png"]


def picture(seed: int = 0) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def tar_entry(name: str, data: bytes = b"", **changes: object) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in changes.items():
        setattr(info, field, value)
    return info, io.BytesIO(data)


def write_tar(path: Path, *entries: tuple[tarfile.TarInfo, io.BytesIO]) -> Path:
    mode = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:
        for info, stream in entries:
            archive.addfile(info, stream)
    return path


def write_zip(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, data in members:
            archive.writestr(name, data)
    return path


def write_parquet(path: Path, cells: list[object], name: str = "image", **more: list[object]) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pa.table({name: cells, **more}), path)
    return path


def read_all(path: Path) -> list[tuple[str, Encoded | ImageError]]:
    return [(member.name, member.read()) for member in members_of(path)]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2"])
def test_every_image_of_an_archive_is_read_whatever_its_name(tmp_path, name):
    members = [(inner, picture(seed)) for seed, inner in enumerate(NAMES)]
    others = [("notes.txt", b"x"), ("._b.png", b"x"), ("folder/", b"")]
    if name.endswith(".zip"):
        path = write_zip(tmp_path / name, members + others)
    else:
        path = write_tar(tmp_path / name, *(tar_entry(inner, data) for inner, data in members + others[:2]))
    found = read_all(path)
    assert [inner for inner, _ in found] == NAMES
    assert [encoded.data for _, encoded in found] == [data for _, data in members]
    assert found[2][1].name == f"{path}/../../etc/passwd.png", "it is a name, and leads nowhere"
    assert count_members(path) == len(NAMES)
    assert sorted(tmp_path.rglob("*")) == [path], "nothing is unpacked"


def test_members_need_not_be_read(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", *(tar_entry(f"{n}.png", picture(n)) for n in range(5)))
    read = [member.read().data for number, member in enumerate(members_of(path)) if number % 2]
    assert read == [picture(1), picture(3)]


@pytest.mark.parametrize(
    "cells",
    [
        [{"bytes": picture(0), "path": "x/a.png"}, {"bytes": picture(1), "path": None}],
        [picture(0), picture(1)],
    ],
)
def test_pictures_in_parquet_are_named_by_their_path_or_row(tmp_path, cells):
    path = write_parquet(tmp_path / "a.parquet", cells, label=[1, 2])
    found = read_all(path)
    assert [name for name, _ in found] == ["x/a.png" if isinstance(cells[0], dict) else "0", "1"]
    assert [encoded.data for _, encoded in found] == [picture(0), picture(1)]
    assert count_members(path) == 2


def test_the_column_of_pictures_must_be_clear(tmp_path):
    assert read_all(write_parquet(tmp_path / "one.parquet", [picture()], "photo", label=[1]))[0][0] == "0"
    two = write_parquet(tmp_path / "two.parquet", [picture()], "first", second=[picture()])
    with pytest.raises(DataError, match="has 2 columns with pictures' bytes"):
        read_all(two)
    none = write_parquet(tmp_path / "none.parquet", ["a.png"])
    with pytest.raises(DataError, match="has 0 columns with pictures' bytes"):
        read_all(none)
    ((_, error), (_, good)) = read_all(write_parquet(tmp_path / "hole.parquet", [None, picture()]))
    assert "holds no bytes" in str(error)
    assert good.data == picture()


def test_links_and_devices_in_a_tar_are_named_and_not_followed(tmp_path):
    (tmp_path / "secret.png").write_bytes(picture())
    path = write_tar(
        tmp_path / "a.tar",
        tar_entry("good.png", picture()),
        tar_entry("soft.png", type=tarfile.SYMTYPE, linkname=str(tmp_path / "secret.png")),
        tar_entry("hard.png", type=tarfile.LNKTYPE, linkname="good.png"),
        tar_entry("pipe.png", type=tarfile.FIFOTYPE),
        tar_entry("last.png", picture(1)),
    )
    good, soft, hard, pipe, last = (found for _, found in read_all(path))
    assert (good.data, last.data) == (picture(), picture(1))
    assert "soft.png: is a link to" in str(soft)
    assert "links in archives are not followed" in str(hard)
    assert "not a regular file" in str(pipe)


def test_an_encrypted_member_is_named_and_the_others_are_read(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("a.png", picture()), ("b.png", picture(1))])
    content = bytearray(path.read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # set "encrypted" for the first member
        content[content.index(signature) + at] |= 1
    path.write_bytes(bytes(content))
    first, second = (found for _, found in read_all(path))
    assert "a.png: is encrypted. Unpack" in str(first)
    assert second.data == picture(1)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar"])
def test_a_huge_member_is_refused_by_name_and_the_others_are_read(tmp_path, monkeypatch, name):
    monkeypatch.setattr(containers, "MAX_FILE_BYTES", 2000)
    monkeypatch.setattr(containers, "MOST_GROWTH", 2000)
    members = [("a.png", picture()), ("huge.png", bytes(100_000)), ("b.png", picture(1))]
    if name.endswith("zip"):
        path = write_zip(tmp_path / name, members)
    else:
        path = write_tar(tmp_path / name, *(tar_entry(*member) for member in members))
    first, huge, last = (found for _, found in read_all(path))
    assert huge.reason == "oversized"
    assert "huge.png" in str(huge)
    assert (first.data, last.data) == (picture(), picture(1))


def test_a_member_that_lies_about_its_size_is_not_read_further(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "MAX_FILE_BYTES", 2000)
    path = write_zip(tmp_path / "a.zip", [("huge.png", bytes(100_000))])
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 24, 100)  # it says: 100 bytes
    path.write_bytes(bytes(content))
    ((_, found),) = read_all(path)
    assert isinstance(found, ImageError)


@pytest.mark.parametrize("name", ["a.zip", "a.tgz"])
def test_an_archive_that_grows_a_thousand_times_is_stopped(tmp_path, monkeypatch, name):
    monkeypatch.setattr(containers, "MAX_FILE_BYTES", 2**20)
    members = [(f"{number}.png", bytes(2**20 - 1)) for number in range(40)]
    if name.endswith("zip"):
        path = write_zip(tmp_path / name, members)
    else:
        path = write_tar(tmp_path / name, *(tar_entry(*member) for member in members))
    read, refused = 0, 0
    for member in members_of(path):
        found = member.read()
        read += len(found.data) if isinstance(found, Encoded) else 0
        refused += isinstance(found, ImageError) and "times its size" in str(found)
    assert refused
    assert read <= 2**20 + containers.MOST_GROWTH * path.stat().st_size


def test_a_method_that_may_ask_for_gigabytes_is_not_read(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("a.png", picture())], zipfile.ZIP_LZMA)
    ((_, found),) = read_all(path)
    assert "compressed in a way that is not read here" in str(found)


@pytest.mark.parametrize(("name", "kind"), [("a.zip", "zip"), ("a.tar.gz", "tar"), ("a.parquet", "Parquet")])
def test_what_cannot_be_opened_is_one_clear_error(tmp_path, name, kind):
    if kind == "Parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    with pytest.raises(DataError, match=f"{name}: no such file"):
        read_all(path)
    for content in (b"", b"no archive at all" * 100):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}: cannot be opened as a {kind}"):
            read_all(path)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_an_archive_that_was_cut_off_says_so_after_what_could_be_read(tmp_path, name, share):
    whole = write_tar(tmp_path / name, *(tar_entry(f"{n}.png", picture(n) * 40) for n in range(12)))
    content = whole.read_bytes()
    whole.write_bytes(content[: int(len(content) * share)])
    found = [member for _, member in read_all(whole)]
    assert all(encoded.data == picture(n) * 40 for n, encoded in enumerate(found) if isinstance(encoded, Encoded))
    assert isinstance(found[-1], ImageError)
    assert "is damaged" in str(found[-1]) or "cannot be read from its archive" in str(found[-1])


def test_names_decide_what_is_opened():
    for name in ("a.zip", "b.TAR", "c.tgz", "d.tar.bz2", "e.parquet"):
        assert is_container(Path(name))
    for name in ("a.jpg", "b.gz", "c.tar.xz", "zip", "d.txt"):
        assert not is_container(Path(name))


def whole_files(folder: Path) -> dict[str, bytes]:
    """A small file of each kind."""
    members = [(f"{number}.png", picture(number)) for number in range(3)]
    write_zip(folder / "a.zip", members)
    for name in ("a.tar", "a.tar.gz"):
        write_tar(folder / name, *(tar_entry(*member) for member in members))
    names = ["a.zip", "a.tar", "a.tar.gz"]
    try:
        import pyarrow  # noqa: F401

        write_parquet(folder / "a.parquet", [data for _, data in members])
        names.append("a.parquet")
    except ImportError:
        pass
    return {name: (folder / name).read_bytes() for name in names}


def read_or_refuse(path: Path) -> list[Encoded | ImageError]:
    """Read all that a damaged file gives; nothing if it is refused as a whole, by an error that names it."""
    refusal = ""
    try:
        return [found for _, found in read_all(path)]
    except DataError as error:
        refusal = str(error)
    assert refusal.startswith(str(path))
    return []


@pytest.fixture(scope="module")
def intact(tmp_path_factory) -> dict[str, bytes]:
    return whole_files(tmp_path_factory.mktemp("intact"))


@hypothesis.settings(max_examples=150, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(data=st.data())
def test_damage_anywhere_is_an_error_of_ours_and_never_a_crash(tmp_path, intact, data):
    name = data.draw(st.sampled_from(sorted(intact)))
    content = bytearray(intact[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(1, len(content))) :]
    path = tmp_path / name
    path.write_bytes(bytes(content))
    found = read_or_refuse(path)
    assert all(isinstance(member, Encoded | ImageError) for member in found)
    batches = list(read_pictures(found, Preprocess(size=32), batch_size=4))  # type: ignore[arg-type]
    assert sum(len(batch.indices) + len(batch.errors) for batch in batches) == len(found)
    assert all(error.path.startswith(str(path)) for batch in batches for _, error in batch.errors)


@hypothesis.settings(max_examples=60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(junk=st.binary(max_size=3000), name=st.sampled_from(["a.zip", "a.tar", "a.tar.gz", "a.parquet"]))
def test_any_bytes_end_in_a_message(tmp_path, junk, name):
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    wrap: Callable[[bytes], bytes] = gzip.compress if name == "a.tar.gz" else lambda content: content
    (tmp_path / name).write_bytes(wrap(junk))
    assert all(isinstance(found, ImageError) for found in read_or_refuse(tmp_path / name))


def test_an_image_in_an_archive_is_named_with_it_when_it_cannot_be_decoded(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("bad.png", zlib.compress(b"x"))])
    (batch,) = read_pictures([found for _, found in read_all(path)], Preprocess(size=32))
    ((index, error),) = batch.errors
    assert (index, error.path) == (0, f"{path}/bad.png")
