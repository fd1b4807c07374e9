"""A damaged file of word vectors is encoded again, and never believed."""

from pathlib import Path

import numpy as np
import pytest

from tagloom.cache_folder import is_intact, read_meta
from tagloom.words import encode_labels
from tagloom.words.cache import VectorCache
from tagloom.words.sources import WordSource
from tagloom.words.vector_files import LabelVectors, write_vectors

VECTORS = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    found = VectorCache(tmp_path, "glove 1.0")
    found.add(["dog", "cat"], VECTORS)
    return found


def the_file(cache: VectorCache) -> Path:
    (path,) = cache.folder.glob("*.safetensors")
    return path


def test_files_carry_their_checksum_and_the_folder_says_what_it_belongs_to(cache):
    assert is_intact(the_file(cache))
    assert read_meta(cache.folder / "meta.json") == {"source": "glove 1.0"}
    np.testing.assert_array_equal(cache.find(["cat"])["cat"], VECTORS[1])


@pytest.mark.parametrize("damage", ["zeroed", "flipped", "cut", "empty"])
def test_a_damaged_file_is_removed(cache, damage):
    path = the_file(cache)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-10] ^= 1
    path.write_bytes({"zeroed": content[:-24] + bytes(24), "cut": content[:-4], "empty": b""}.get(damage, content))
    assert cache.find(["dog", "cat"]) == {}
    assert not path.exists()
    cache.add(["dog"], VECTORS[:1])
    np.testing.assert_array_equal(cache.find(["dog"])["dog"], VECTORS[0])


def test_files_of_older_versions_are_read_unless_they_are_zero(cache):
    path = the_file(cache)
    path.unlink()
    old = cache.folder / f"{'a' * 32}.safetensors"
    write_vectors(old, LabelVectors(("dog", "cat"), VECTORS))
    np.testing.assert_array_equal(cache.find(["dog"])["dog"], VECTORS[0])
    old.write_bytes(old.read_bytes()[:-24] + bytes(24))
    assert cache.find(["dog", "cat"]) == {}
    assert not old.exists()


def test_vectors_of_different_lengths_are_not_mixed(cache):
    VectorCache.add(cache, ["sofa"], np.ones((1, 3), np.float32))
    assert cache.find(["dog", "sofa"]) == {}
    assert set(cache.find(["dog", "cat"])) == {"dog", "cat"}


def test_a_source_whose_vectors_have_another_length_now_is_encoded_again(tmp_path, monkeypatch):
    sizes = iter([4, 6, 6])

    def opened(name: str) -> WordSource:
        return WordSource(name, lambda labels: np.ones((len(labels), next(sizes)), np.float32))

    monkeypatch.setattr("tagloom.words.open_source", opened)
    assert encode_labels(["dog"], "owner/name", cache_folder=tmp_path).shape == (1, 4)
    assert encode_labels(["dog", "cat"], "owner/name", cache_folder=tmp_path).shape == (2, 6)
    assert next(sizes, None) is None
