"""A tagger with word queries scores any labels: typed, unseen, one or twenty thousand, with torch or without."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tagloom.data import load_table
from tagloom.errors import TaggerError, WordError
from tagloom.evaluation.evaluate import evaluate, evaluate_split, trained_labels
from tagloom.labels.split import LabelSplit
from tagloom.predict import any_labels as labels_module
from tagloom.predict.any_labels import own_queries, queries_for, with_queries
from tagloom.predict.tagger import Tagger, load
from tagloom.tagger.spec import WordForm, read_spec
from tagloom.words import encode_labels, sources

UNSEEN = ("anchor", "car", "heart", "tree")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def tagger(word_run) -> Tagger:
    return load(word_run)


@pytest.fixture
def folder(word_run, tmp_path) -> Path:
    """A copy of the tagger that a test may spoil."""
    return Path(shutil.copytree(word_run, tmp_path / "tagger"))


@pytest.fixture
def picture(scenes) -> Path:
    return sorted((scenes / "images").glob("test_0*.jpg"))[0]


def test_unseen_words_were_not_trained_and_are_scored_all_the_same(tagger, picture):
    assert tagger.engine == "onnx"
    assert not set(UNSEEN) & set(tagger.classes)
    (tags,) = tagger.predict(picture, labels=["car", "golden heart", "boat"], top_k=3)
    assert {tag.label for tag in tags} == {"car", "golden heart", "boat"}


def test_scores_do_not_depend_on_number_or_order_of_the_labels(tagger, picture):
    many = ["boat", *UNSEEN, *(f"w{number}" for number in range(30))]
    together = dict(zip(many, tagger.scores(picture, labels=many)[0], strict=True))
    backwards = dict(zip(many[::-1], tagger.scores(picture, labels=many[::-1])[0], strict=True))
    for label in many:
        assert backwards[label] == pytest.approx(together[label], abs=1e-5)
    assert tagger.scores(picture, labels=["car"])[0, 0] == pytest.approx(together["car"], abs=1e-5)
    own = dict(zip(tagger.classes, tagger.scores(picture)[0], strict=True))
    assert own["boat"] == pytest.approx(together["boat"], abs=1e-5)


def test_torch_and_onnx_agree_on_any_labels(tagger, folder, picture):
    (folder / "model.onnx").unlink()
    other = load(folder)
    assert other.engine == "torch"
    for asked in (None, ["car", "boat", "wedding"]):
        np.testing.assert_allclose(other.scores(picture, asked), tagger.scores(picture, asked), atol=1e-5)


def test_trained_labels_need_no_source_and_keep_their_thresholds(folder, glove, picture, monkeypatch):
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("trained labels were encoded again")

    monkeypatch.setattr(labels_module, "encode_labels", refuse)
    tagger = load(folder)
    chosen = list(tagger.classes[3:6])
    np.testing.assert_allclose(tagger.scores(picture, chosen), tagger.scores(picture)[:, 3:6], atol=1e-5)
    assert tagger.with_labels(chosen).spec.thresholds == tagger.spec.thresholds[3:6]


def test_new_labels_get_the_median_threshold(tagger):
    asked = tagger.with_labels(["boat", "car"])
    place = tagger.classes.index("boat")
    assert asked.spec.thresholds[0] == pytest.approx(tagger.spec.thresholds[place])
    assert asked.spec.thresholds[1] == pytest.approx(np.median(tagger.spec.thresholds))
    again = tagger.with_labels(["car"]).with_labels(["boat"])
    assert again.spec.thresholds[0] == pytest.approx(tagger.spec.thresholds[place])


def test_twenty_thousand_labels_go_in_chunks(tagger, picture, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = {f"label {number}": rng.standard_normal(6).astype(np.float32) for number in range(20_000)}
    known = dict(zip(*tagger._label_scorer.own, strict=True)) | vectors
    monkeypatch.setattr(
        labels_module, "encode_labels", lambda asked, *_, **__: np.stack([known[name] for name in asked])
    )
    sizes: list[int] = []
    real = tagger._label_scorer.network

    def noting(pictures, words):
        sizes.append(len(pictures) * len(words))
        return real(pictures, words)

    object.__setattr__(tagger._label_scorer, "network", noting)
    names = list(vectors)
    scores = tagger.scores(picture, labels=names)
    assert scores.shape == (1, 20_000)
    assert len(sizes) == 5
    assert max(sizes) <= labels_module.MAX_TOKENS
    few = tagger.scores(picture, labels=[names[5], names[19_999]])
    np.testing.assert_allclose(few[0], scores[0, [5, 19_999]], atol=1e-5)


@pytest.mark.parametrize(("asked", "says"), [([], "empty"), (["car", " "], "empty"), ("car", "a list of names")])
def test_lists_that_are_none_are_refused(tagger, picture, asked, says):
    with pytest.raises(TaggerError, match=says):
        tagger.predict(picture, labels=asked)


def test_a_label_that_is_given_twice_counts_once(tagger):
    assert tagger.with_labels(["car", "boat", "car"]).classes == ("car", "boat")


def test_a_label_without_a_vector_is_named_with_the_nearest(tagger, picture):
    with pytest.raises(WordError, match=r"'surfbord' \(nearest: 'surfboard'\)"):
        tagger.predict(picture, labels=["surfbord"])


def test_a_tagger_without_words_says_which_has_them(finished_run, picture):
    with pytest.raises(TaggerError, match=r"head 'gap'.* knows its 24 labels only.*quick-words"):
        load(finished_run).predict(picture, labels=["wedding"])


def test_a_source_that_has_moved_can_be_named(folder, glove, tmp_path, picture):
    spec = folder / "tagger.json"
    spec.write_text(spec.read_text().replace(str(glove), "/nowhere/glove.6d.txt"))
    with pytest.raises(WordError, match=r"glove\.6d\.txt: no such file.*name it with --words FILE"):
        load(folder).predict(picture, labels=["car"])
    moved = shutil.copy(glove, tmp_path / "moved.txt")
    np.testing.assert_allclose(
        load(folder, words=str(moved)).scores(picture, ["car"]),
        load(folder, words=str(glove)).scores(picture, ["car"]),
    )


@pytest.mark.parametrize("named", ["somebody/encoder", "a folder"])
def test_a_model_is_loaded_only_when_the_user_names_it(folder, glove, tmp_path, picture, monkeypatch, named):
    model = str(tmp_path) if named == "a folder" else named
    spec = folder / "tagger.json"
    spec.write_text(spec.read_text().replace(str(glove), model))
    loaded: list[str] = []

    def encode(name: str):
        loaded.append(name)
        return lambda labels: encode_labels(labels, str(glove))

    monkeypatch.setattr(sources, "_sentences", encode)
    tagger = load(folder)
    tagger.predict(picture, labels=tagger.classes[:2])  # trained labels need none
    with pytest.raises(TaggerError, match=f"name it yourself: --words {model}"):
        tagger.predict(picture, labels=["car"])
    assert loaded == []
    load(folder, words=model).predict(picture, labels=["car"])
    assert loaded == [model]


def test_the_card_names_the_file_of_words_and_not_where_it_lay(word_run, glove):
    card = (word_run / "README.md").read_text()
    assert f"`{glove.name}`" in card
    assert str(glove) not in card


def test_another_source_than_the_tagger_was_trained_with_is_found_out(folder, glove, tmp_path, picture):
    other = tmp_path / "other.txt"
    other.write_text("\n".join(line + "7" for line in glove.read_text().splitlines()[::-1]).replace(" -", " "))
    with pytest.raises(TaggerError, match="another source"):
        load(folder, words=str(other)).predict(picture, labels=["car"])


def test_a_folder_whose_words_belong_to_other_labels_is_refused(folder):
    spec = folder / "tagger.json"
    spec.write_text(spec.read_text().replace('"boat"', '"ship"'))
    with pytest.raises(TaggerError, match=r"not those of tagger\.json"):
        load(folder)
    (folder / "words.safetensors").unlink()
    with pytest.raises(WordError, match=r"words\.safetensors"):
        load(folder)


def test_the_folder_tells_how_it_is_asked(word_run, glove):
    words = read_spec(word_run).words
    assert words == WordForm(source=str(glove), places=tuple(range(20)))


def test_places_in_a_strangers_folder_are_checked(folder):
    spec = folder / "tagger.json"
    spec.write_text(spec.read_text().replace('"group_size": 1', '"group_size": 0'))
    with pytest.raises(TaggerError, match="group_size"):
        load(folder)


def scored_by_column(pictures: np.ndarray, words: np.ndarray) -> np.ndarray:
    """A network whose logit of a word is its first value."""
    return np.repeat(words[:, :, 0].reshape(1, -1), len(pictures), axis=0)


@pytest.mark.parametrize("grouping", ["random", "consecutive"])
@pytest.mark.parametrize(("group_size", "fixed"), [(1, None), (4, None), (4, 3), (1, 5)])
@pytest.mark.parametrize("count", [1, 4, 11, 30])
def test_every_label_finds_its_own_logit_however_words_are_laid_out(grouping, group_size, fixed, count):
    form = WordForm("x", places=(0,), group_size=group_size, fixed_queries=fixed, grouping=grouping)
    vectors = np.stack([np.arange(1, count + 1), np.ones(count)], axis=1).astype(np.float32)
    chunks = queries_for(vectors, form)
    for words, _ in chunks:
        assert words.shape[1:] == (group_size, 2)
        assert fixed is None or len(words) == fixed
        assert (words.any(axis=2).sum(axis=1) > 0).all() or fixed is not None, "no query is idle"
    logits = with_queries(scored_by_column, chunks)(np.zeros((2, 8, 8, 3), np.uint8))
    assert logits.tolist() == [list(range(1, count + 1))] * 2


def test_own_classes_stand_where_they_were_trained():
    form = WordForm("x", places=(3, 0, 5), group_size=2)
    words, columns = own_queries(np.float32([[1, 1], [2, 2], [3, 3]]), form)
    assert words[:, :, 0].tolist() == [[2, 0], [0, 1], [0, 3]]
    assert columns.tolist() == [3, 0, 5]


def test_seen_and_unseen_labels_are_evaluated_together_and_apart(tagger, scenes):
    table = load_table(scenes / "test.csv")
    seen = tuple(name for name in table.classes if name not in UNSEEN)
    result = evaluate_split(tagger, table, LabelSplit(seen, UNSEEN))
    labels = (*seen, *UNSEEN)
    np.testing.assert_allclose(
        result.scores, tagger.scores([table.path(row) for row in range(len(table))], labels), atol=1e-6
    )
    plain = evaluate(tagger, table, ignore_other_labels=True).metrics
    assert result.metrics["seen"]["mAP"] == pytest.approx(plain["mAP"], abs=0.01)
    assert result.metrics["ZSL"]["columns"] == [20, 21, 22, 23]
    assert not trained_labels(tagger) & set(UNSEEN)


def test_labels_that_the_table_lacks_stay_in_the_ranking(tagger, scenes):
    table = load_table(scenes / "test.csv")
    seen = tuple(name for name in table.classes if name not in UNSEEN)
    lacking = {"boat", "car"}
    fewer = table.with_classes([name for name in table.classes if name not in lacking], on_extra="drop")
    split = LabelSplit(seen, UNSEEN)
    result, whole = (evaluate_split(tagger, part, split) for part in (fewer, table))
    labels = (*seen, *UNSEEN)
    assert result.metrics["GZSL"]["columns"] == list(range(24))
    absent = {labels[column] for column in result.metrics["GZSL"]["columns_without_positive"]}
    assert absent == lacking | {labels[column] for column in whole.metrics["GZSL"]["columns_without_positive"]}
    np.testing.assert_allclose(result.scores, whole.scores, atol=1e-6)
    partly = replace(fewer, unlisted="unknown")
    columns = evaluate_split(tagger, partly, split).metrics["GZSL"]["columns_without_positive"]
    assert lacking <= {labels[column] for column in columns}


def test_a_tagger_that_knows_all_labels_is_evaluated_by_its_own(finished_run, scenes):
    table = load_table(scenes / "test.csv")
    seen = tuple(name for name in table.classes if name not in UNSEEN)
    tagger = load(finished_run)
    result = evaluate_split(tagger, table, LabelSplit(seen, UNSEEN))
    assert result.metrics["GZSL"]["mAP"] == pytest.approx(evaluate(tagger, table).metrics["mAP"])
    with pytest.raises(TaggerError, match="labels only"):
        evaluate_split(tagger, table.with_classes([*table.classes, "wedding"]), LabelSplit(seen, ("wedding",)))
