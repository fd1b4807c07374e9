"""Files of labels and vectors are read back as they were written, and hostile ones are refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from tagloom.errors import WordError
from tagloom.words import vector_files
from tagloom.words.vector_files import LabelVectors, read_vectors, write_vectors

TABLE = LabelVectors(("dog", "fire hydrant", "crêpe"), np.arange(12, dtype=np.float32).reshape(3, 4))


def test_what_is_written_comes_back(tmp_path):
    write_vectors(tmp_path / "words.safetensors", TABLE)
    found = read_vectors(tmp_path / "words.safetensors")
    assert found.labels == TABLE.labels
    assert np.array_equal(found.vectors, TABLE.vectors)
    assert [path.name for path in tmp_path.iterdir()] == ["words.safetensors"]


def test_npz_is_read_in_any_float(tmp_path):
    np.savez(tmp_path / "words.npz", labels=np.array(TABLE.labels), vectors=TABLE.vectors.astype(np.float64))
    found = read_vectors(tmp_path / "words.npz")
    assert found.labels == TABLE.labels
    assert found.vectors.dtype == np.float32
    assert np.array_equal(found.vectors, TABLE.vectors)


def test_pickles_are_not_read(tmp_path):
    np.savez(tmp_path / "words.npz", labels=np.array(["dog", None], dtype=object), vectors=np.zeros((2, 4)))
    with pytest.raises(WordError, match="allow_pickle"):
        read_vectors(tmp_path / "words.npz")


@pytest.mark.parametrize(
    ("labels", "vectors", "says"),
    [
        (["dog"], np.zeros((2, 4), np.float32), "1 labels for 2 vectors"),
        (["dog", "dog"], np.zeros((2, 4), np.float32), "occurs twice"),
        (["dog", " "], np.zeros((2, 4), np.float32), "empty"),
        (["dog", 3], np.zeros((2, 4), np.float32), "empty"),
        (["dog", "cat"], np.zeros((2, 4), np.int32), "int32"),
        (["dog"], np.zeros(4, np.float32), "expected rows"),
        (["dog"], np.zeros((1, 0), np.float32), "expected rows"),
    ],
)
def test_tables_that_do_not_fit_say_why(tmp_path, labels, vectors, says):
    save_file({"vectors": vectors}, tmp_path / "w.safetensors", metadata={"labels": json.dumps(labels)})
    with pytest.raises(WordError, match=says):
        read_vectors(tmp_path / "w.safetensors")


@pytest.mark.parametrize("metadata", [None, {"labels": '"dog"'}, {"labels": "no json"}])
def test_labels_must_be_a_list(tmp_path, metadata):
    save_file({"vectors": np.zeros((1, 2), np.float32)}, tmp_path / "w.safetensors", metadata=metadata)
    with pytest.raises(WordError, match=r"w\.safetensors"):
        read_vectors(tmp_path / "w.safetensors")


@pytest.mark.parametrize("name", ["w.safetensors", "w.npz"])
def test_damaged_and_missing_files_give_a_tagloom_error(tmp_path, name):
    with pytest.raises(WordError, match=name):
        read_vectors(tmp_path / name)
    (tmp_path / name).write_bytes(b"\x00" * 40)
    with pytest.raises(WordError, match=name):
        read_vectors(tmp_path / name)


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "w.npz", labels=np.array(["dog"]), vectors=np.zeros((1, 16_000), np.float32))
    monkeypatch.setattr(vector_files, "MAX_BYTES", 10_000)
    with pytest.raises(WordError, match="unpacks to more"):
        read_vectors(tmp_path / "w.npz")
