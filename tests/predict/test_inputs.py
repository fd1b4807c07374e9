"""Images are found wherever they are, in a stable order, each once, and shards share them without loss."""

import os
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tagloom.data.images import find_images, walk_images
from tagloom.errors import DataError
from tagloom.predict.files import split_arguments
from tagloom.predict.inputs import Shard, count_inputs, find_inputs, read_shard


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for name in (
        "b.png",
        "a/z.png",
        "a/b/c.png",
        "a.png",
        "a-b/x.JPG",
        "Z.png",
        ".hidden/x.png",
        ".x.png",
        "notes.doc",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(folder / name, "PNG")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.write(folder / "b.png", "in/b.png")
        archive.write(folder / "b.png", "c.png")
    return folder


def names(*places: Path, shard: Shard | None = None) -> list[str]:
    return [os.path.relpath(str(image), places[0].parent) for image in find_inputs(places, shard)]


def test_a_folder_is_walked_in_the_order_of_its_sorted_paths(photos):
    wanted = sorted(
        path
        for path in photos.rglob("*")
        if path.suffix.lower() in (".png", ".jpg") and not any(part.startswith(".") for part in path.parts)
    )
    assert list(walk_images(photos)) == find_images(photos) == wanted
    assert len(wanted) == 6


def test_links_to_folders_are_not_followed_and_odd_entries_do_no_harm(photos):
    before = find_images(photos)
    (photos / "loop").symlink_to(photos)
    (photos / "self.png").symlink_to("self.png")
    (photos / "folder.png").mkdir()
    found = find_images(photos)
    assert [path for path in found if path.name != "self.png"] == before


def test_lists_patterns_and_archives_stand_beside_files(photos, tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("\ufeffphotos/b.png\n\n" + str(photos / "a.png") + "\r\nphotos/gone.png\n", encoding="utf-8")
    assert names(listed) == ["photos/b.png", "photos/a.png", "photos/gone.png"]
    assert names(tmp_path / "more.zip") == ["more.zip/in/b.png", "more.zip/c.png"]
    found = [str(image) for image in find_inputs([photos / "a*" / "*.png"])]
    assert found == [str(photos / "a" / "z.png")]
    together = names(photos / "b.png", listed, tmp_path / "m*.zip", photos)
    assert len(together) == len(set(together)) == 6 + 1 + 2, "six images, one that is gone, two in the archive"


def test_a_name_with_signs_of_a_pattern_is_a_name_if_it_exists(photos):
    odd = photos / "b[1].png"
    (photos / "b.png").rename(odd)
    assert [image.place for image in find_inputs([odd])] == [odd]


@pytest.mark.parametrize(
    ("content", "message"), [("\n \n", "lists no image"), ("a\0b.png", "is not a path"), ("x" * 5000, "is not a path")]
)
def test_a_list_that_cannot_be_meant_is_refused(tmp_path, content, message):
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        list(find_inputs([tmp_path / "list.txt"]))


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="no file or folder matches this"):
        list(find_inputs([tmp_path / "*.tar"]))
    with pytest.raises(DataError, match=r"a\.zip: no such file"):
        list(find_inputs([tmp_path / "a.zip"]))
    with pytest.raises(DataError, match=r"list\.txt: cannot be read"):
        list(find_inputs([tmp_path / "list.txt"]))


@pytest.mark.parametrize("count", [1, 2, 3, 8, 11])
def test_shards_share_the_images(photos, tmp_path, count):
    places = [photos, tmp_path / "more.zip"]
    whole = names(*places)
    parts = [names(*places, shard=Shard(index, count)) for index in range(count)]
    assert sorted(image for part in parts for image in part) == sorted(whole)
    assert [len(part) for part in parts] == [count_inputs(places, Shard(index, count)) for index in range(count)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("given", ["", "3", "0/8", "9/8", "a/b", "1/0", "-1/8", "1/8/2", "1.0/2"])
def test_a_shard_that_cannot_be_meant_is_refused(given):
    with pytest.raises(DataError, match="write it as NUMBER/COUNT"):
        read_shard(given)


def test_a_pattern_is_no_tagger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert split_arguments(["shards/*.tar"]) == (None, [Path("shards/*.tar")])
