"""Text files of word vectors, as GloVe and fastText write them, and damaged ones."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tagloom.errors import WordError
from tagloom.words import text
from tagloom.words.text import TextVectors
from tagloom.words.vocabulary import phrase_vectors

GLOVE = "the 0.1 0.2 0.3\ndog 1 0 0\npotted 0 1 0\nplant 0 0 1\nParis 1 1 1\nt-shirt 2 2 2\nsurfboard 3 0 0\n"


def write(folder: Path, content: str = GLOVE, name: str = "glove.txt") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


def vectors(path: Path, *labels: str) -> list[list[float]]:
    return phrase_vectors(labels, TextVectors(path), str(path)).tolist()


@pytest.mark.parametrize("name", ["glove.txt", "glove.vec", "glove.txt.gz", "crawl.vec.gz"])
@pytest.mark.parametrize("header", ["", "7 3\n"])
def test_plain_and_gzip_with_and_without_a_header_give_the_same(tmp_path, name, header):
    assert vectors(write(tmp_path, header + GLOVE, name), "dog", "plant") == [[1, 0, 0], [0, 0, 1]]


def test_phrases_are_the_mean_of_their_words_and_whole_labels_go_first(tmp_path):
    path = write(tmp_path)
    assert vectors(path, "potted plant") == [[0, 0.5, 0.5]]
    assert vectors(path, "t-shirt") == [[2, 2, 2]]
    assert vectors(path, "Dog", "paris") == [[1, 0, 0], [1, 1, 1]]


def test_words_that_are_missing_are_all_named_with_the_nearest_spelling(tmp_path):
    path = write(tmp_path)
    with pytest.raises(WordError) as error:
        vectors(path, "dog", "surfbord", "poted plant", "xyzzy")
    message = str(error.value)
    assert "3 labels have no vector" in message
    assert "'surfbord' (nearest: 'surfboard')" in message
    assert "'poted' (nearest: 'potted')" in message
    assert "no 'xyzzy'" in message
    assert str(path) in message


def test_a_label_of_punctuation_contains_no_word(tmp_path):
    with pytest.raises(WordError, match="contains no word"):
        vectors(write(tmp_path), "!?")


def test_only_the_lines_that_are_needed_are_parsed(tmp_path):
    broken_elsewhere = GLOVE + "unused not numbers at all\n"
    assert vectors(write(tmp_path, broken_elsewhere), "dog") == [[1, 0, 0]]


def test_a_word_with_a_space_in_it_is_not_taken_for_its_first_word(tmp_path):
    assert vectors(write(tmp_path, "a 1 2\ndog show 5 6\ndog 3 4\n"), "dog") == [[3, 4]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("dog 1 2 3\ncat 1 2\n", "line 2: expected 3 numbers"),
        ("dog 1 2 3\ncat 1 nan 3\n", "line 2: expected 3 numbers"),
        ("dog 1 2 3\ncat 1 two 3\n", "line 2: expected 3 numbers"),
        ("", "no vectors in it"),
        ("dog\n", "0 values after the first word"),
    ],
)
def test_damaged_files_say_where(tmp_path, content, says):
    with pytest.raises(WordError, match=says):
        vectors(write(tmp_path, content), "dog", "cat")


def test_lines_of_absurd_length_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_LINE", 20)
    with pytest.raises(WordError, match="line 2: too long"):
        vectors(write(tmp_path, "dog 1 2\ncat " + "1 " * 50), "cat")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_BYTES", 1000)
    with pytest.raises(WordError, match="too long"):
        vectors(write(tmp_path, "dog 1 2\n" * 1000, "bomb.txt.gz"), "cat")


def test_a_cut_off_archive_is_an_error_and_not_an_end(tmp_path):
    path = write(tmp_path, "".join(f"w{number} {number} 1\n" for number in range(5000)), "glove.txt.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(WordError, match="cannot be read"):
        vectors(path, "dog")


def test_vectors_are_float32(tmp_path):
    assert phrase_vectors(["dog"], TextVectors(write(tmp_path)), "x").dtype == np.float32
