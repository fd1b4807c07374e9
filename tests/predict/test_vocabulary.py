"""A tagger of words brings the vectors of a vocabulary along: its words need no encoder."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tagloom.cli import main
from tagloom.errors import DataError, MissingExtraError, TaggerError, WordError
from tagloom.export.labels import read_vocabulary
from tagloom.export.package import write_package
from tagloom.predict import any_labels
from tagloom.predict.tagger import load
from tagloom.tagger.spec import VOCABULARY_FILE
from tagloom.words import encode_labels
from tagloom.words.vector_files import LabelVectors, read_vectors, write_vectors

VOCABULARY = ("car", "anchor", "wedding")
TEXTS = {word: word for word in VOCABULARY}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def picture(scenes) -> Path:
    return sorted((scenes / "images").glob("test_0*.jpg"))[0]


@pytest.fixture
def packed(word_run, tmp_path) -> Path:
    folder = tmp_path / "packed"
    write_package(word_run, folder, vocabulary=TEXTS)
    return folder


@pytest.fixture
def without_encoder(monkeypatch):
    def refuse(labels, *_arguments, **_options):
        raise MissingExtraError("the source of word vectors", "words")

    monkeypatch.setattr(any_labels, "encode_labels", refuse)


def test_its_words_are_scored_as_encoded_ones_but_without_an_encoder(
    packed, word_run, picture, without_encoder, monkeypatch
):
    found = load(packed).scores(picture, VOCABULARY)
    monkeypatch.undo()
    np.testing.assert_allclose(found, load(word_run).scores(picture, VOCABULARY), atol=2e-3)


@pytest.mark.parametrize(
    ("written", "meant"), [("Car", "car"), ("cars", "car"), ("ANCHORS", "anchor"), ("Boat", "boat")]
)
def test_how_a_word_is_written_does_not_matter(packed, picture, without_encoder, written, meant):
    tagger = load(packed)
    np.testing.assert_array_equal(tagger.scores(picture, [written]), tagger.scores(picture, [meant]))


def test_a_trained_label_keeps_its_threshold_however_it_is_written(word_run):
    tagger = load(word_run)
    name = tagger.classes[3]
    asked = tagger.with_labels([f" {name.upper()} "])
    assert asked.classes == (f" {name.upper()} ",)
    assert asked.spec.thresholds == (tagger.spec.thresholds[3],)
    np.testing.assert_array_equal(asked.label_vectors(), tagger.label_vectors()[[3]])


def test_a_word_that_is_in_neither_is_named_with_the_nearest_and_the_install_that_encodes_it(
    packed, picture, without_encoder
):
    message = r"'ancor' \(nearest: 'anchor'\): not among the words that come with this tagger.*tagloom\[words"
    with pytest.raises(WordError, match=message):
        load(packed).predict(picture, labels=["car", "ancor"])


def test_other_words_are_encoded_as_ever(packed, word_run, picture):
    np.testing.assert_allclose(
        load(packed).scores(picture, ["surfboard"]), load(word_run).scores(picture, ["surfboard"]), atol=1e-5
    )


def test_vectors_that_the_user_names_come_before_the_vocabulary(packed, glove, picture, monkeypatch):
    asked: list[str] = []

    def noting(labels, source, **options):
        asked.extend(labels)
        return encode_labels(labels, source, **options)

    monkeypatch.setattr(any_labels, "encode_labels", noting)
    load(packed, words=str(glove)).scores(picture, ["car"])
    assert "car" in asked


def test_it_is_stored_in_half_precision(packed):
    single = np.float32(4) * len(VOCABULARY) * read_vectors(packed / VOCABULARY_FILE).vectors.shape[1]
    header = (packed / VOCABULARY_FILE).read_bytes()
    assert b'"F16"' in header
    assert len(header) < single + 300


def test_it_is_kept_when_the_package_is_exported_again(packed, tmp_path):
    write_package(packed, tmp_path / "again")
    assert (tmp_path / "again" / VOCABULARY_FILE).read_bytes() == (packed / VOCABULARY_FILE).read_bytes()


def test_one_of_another_width_is_refused(packed, picture):
    write_vectors(packed / VOCABULARY_FILE, LabelVectors(("car",), np.ones((1, 3), np.float32)))
    with pytest.raises(TaggerError, match="its vectors have 3 values, and those of the classes 6"):
        load(packed).predict(picture, labels=["car"])


def test_a_tagger_without_words_takes_no_vocabulary(finished_run, tmp_path):
    with pytest.raises(TaggerError, match="has no word queries"):
        write_package(finished_run, tmp_path / "packed", vocabulary=TEXTS)
    assert not (tmp_path / "packed").exists()


def test_the_command_reads_it_from_a_file(word_run, tmp_path, monkeypatch, capsys):
    (tmp_path / "words.txt").write_text("\n".join(VOCABULARY))
    arguments = ["export", word_run, "--vocabulary", tmp_path / "words.txt", "--out", tmp_path / "small"]
    monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert read_vectors(tmp_path / "small" / VOCABULARY_FILE).labels == VOCABULARY
    assert VOCABULARY_FILE in capsys.readouterr().out


def test_a_line_may_say_what_is_encoded_for_a_word(word_run, tmp_path, picture, without_encoder, monkeypatch):
    (tmp_path / "words.txt").write_text("\ncar\n  rucksack = surfboard \n\ncar = anchor\n")
    texts = read_vocabulary(tmp_path / "words.txt")
    assert texts == {"car": "car", "rucksack": "surfboard"}
    write_package(word_run, tmp_path / "packed", vocabulary=texts)
    found = load(tmp_path / "packed").scores(picture, ["rucksack"])
    monkeypatch.undo()
    np.testing.assert_allclose(found, load(word_run).scores(picture, ["surfboard"]), atol=2e-3)


@pytest.mark.parametrize(("content", "says"), [("\n \n", "no words"), ("a\n = b\n", "line 2: there is no word before")])
def test_a_file_without_words_is_refused(tmp_path, content, says):
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(DataError, match=says):
        read_vocabulary(tmp_path / "words.txt")
    with pytest.raises(DataError, match="no such file"):
        read_vocabulary(tmp_path / "none.txt")


def test_a_package_can_tag_with_fewer_labels(word_run, tmp_path, picture):
    run = load(word_run)
    kept = list(run.classes[5:2:-1])
    write_package(word_run, tmp_path / "few", labels=kept)
    few = load(tmp_path / "few")
    assert few.classes == tuple(kept)
    np.testing.assert_allclose(few.scores(picture), run.scores(picture, kept), atol=1e-5)
    assert few.spec.thresholds == run.with_labels(kept).spec.thresholds
    for part, measured in few.spec.metrics.items():
        before = run.spec.metrics[part]["AP"]
        assert measured["AP"] == [before[run.classes.index(name)] for name in kept]
        assert measured["mAP"] == pytest.approx(np.mean([value for value in measured["AP"] if value is not None]))
    assert few.spec.metrics.keys() == run.spec.metrics.keys()
    few.scores(picture, ["anchor"])  # and still with any other


def test_a_package_can_tag_with_labels_that_were_never_trained(word_run, tmp_path, picture):
    write_package(word_run, tmp_path / "other", labels=["anchor", "boat"])
    other = load(tmp_path / "other")
    np.testing.assert_allclose(other.scores(picture), load(word_run).scores(picture, ["anchor", "boat"]), atol=1e-5)
    assert other.spec.metrics == {}, "nothing was measured of an anchor"


def test_a_tagger_without_words_keeps_its_labels(finished_run, tmp_path):
    with pytest.raises(TaggerError, match="has no word queries"):
        write_package(finished_run, tmp_path / "packed", labels=["boat"])
