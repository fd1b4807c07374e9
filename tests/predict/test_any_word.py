"""The any-word tagger that comes with Tagloom scores whatever somebody types."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import tagloom
from tagloom import ready
from tagloom.demo import installed_photographs
from tagloom.errors import DataError, TaggerError
from tagloom.predict.files import split_arguments
from tagloom.tagger.card import model_card
from tagloom.tagger.spec import VOCABULARY_FILE, read_spec
from tagloom.words.vector_files import read_vectors

MAX_BYTES = 26_000_000


@pytest.fixture(scope="module")
def tagger() -> tagloom.Tagger:
    return tagloom.load(ready.ANY_WORD)


def photograph(name: str):
    return next(path for path in installed_photographs() if path.name == name)


def test_it_knows_the_labels_of_the_ready_tagger_and_everyday_words(tagger):
    assert set(tagloom.load().classes) < set(tagger.classes)
    assert len(tagger.classes) > 400
    assert {"beach", "kitchen", "street", "mountain", "child"} < set(tagger.classes)
    assert not {"man", "woman", "boy", "girl"} & set(tagger.classes), "a look does not tell"


def test_its_vocabulary_has_ten_thousand_words_in_few_bytes(tagger):
    folder = ready.any_word_folder()
    words = set(read_vectors(folder / VOCABULARY_FILE).labels)
    assert len(words) >= 10_000
    assert set(tagger.classes) <= words
    assert {"pagoda", "dahlia", "lake", "tulip", "wedding", "castle", "food", "astronaut"} < words
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MAX_BYTES


def test_its_card_says_what_it_learned_from_and_under_which_licence():
    folder = ready.any_word_folder()
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card == model_card(read_spec(folder))
    for part in ("Apache-2.0", "CC BY 4.0", "Flickr", "COCO-QA", "WordNet", "none of these is included"):
        assert part in card


def test_it_tells_a_temple_from_a_flower_and_a_portrait(tagger):
    labels = ["temple", "flower", "uniform"]
    photographs = [photograph(name) for name in ("china.jpg", "flower.jpg", "grace_hopper.jpg")]
    found = [tags[0].label for tags in tagger.predict(photographs, labels=labels, top_k=1)]
    assert found == labels


def test_typed_labels_need_neither_torch_nor_an_encoder(tmp_path):
    Image.fromarray(np.zeros((40, 60, 3), np.uint8)).save(tmp_path / "photo.jpg")
    script = (
        "import sys\n"
        "for name in ('torch', 'sentence_transformers', 'wordllama', 'pyarrow'): sys.modules[name] = None\n"
        f"sys.argv = ['tagloom', 'predict', {str(tmp_path / 'photo.jpg')!r}]\n"
        "sys.argv += ['--labels', 'pagoda, Dahlia', '--top-k', '2']\n"
        "from tagloom.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scoring these labels with the any-word tagger" in done.stderr
    assert "pagoda" in done.stdout
    assert "Dahlia" in done.stdout


def test_it_is_a_tagger_wherever_one_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").touch()
    assert split_arguments(["tagloom:any", "a.jpg"])[0] == "tagloom:any"
    with pytest.raises(DataError, match="stands among the images"):
        split_arguments(["a.jpg", "tagloom:any"])


def test_a_misspelt_name_is_answered_with_the_right_one():
    with pytest.raises(TaggerError, match=r"Did you mean tagloom:any\?"):
        tagloom.load("tagloom:anything")


def test_one_that_was_changed_is_not_used(monkeypatch):
    monkeypatch.setitem(ready.SHA256, "any", "0" * 64)
    with pytest.raises(TaggerError, match="is not the network that ships with Tagloom"):
        tagloom.load(ready.ANY_WORD)


def test_where_it_is_missing_the_message_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(ready, "_shipped_folder", lambda part: tmp_path / part)
    with pytest.raises(TaggerError, match="the any-word tagger is missing"):
        tagloom.load(ready.ANY_WORD)


def test_the_ready_tagger_names_it_for_labels_that_it_does_not_know():
    with pytest.raises(TaggerError, match="scores any label: tagloom:any"):
        tagloom.load().with_labels(["pagoda"])
