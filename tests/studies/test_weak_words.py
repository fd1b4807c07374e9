"""Words for images from a small WordNet: kinds, captions, a vocabulary."""

import sys
from pathlib import Path

import pytest

from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec

STUDIES = Path(__file__).parents[2] / "studies"
# place, file of nouns, names, pointers
MEANINGS = [
    (100, 5, ["animal"], ""),
    (200, 5, ["dog", "domestic_dog"], "@ 00000100 n 0000"),
    (300, 5, ["pug"], "@ 00000200 n 0000"),
    (400, 6, ["living_room"], ""),
    (500, 5, ["goose"], "@ 00000100 n 0000"),
    (600, 6, ["room"], ""),
    (700, 15, ["Paris"], "@i 00000400 n 0000"),
    (800, 18, ["yob"], ";u 00000900 n 0000"),
    (900, 10, ["slang"], ""),
    (1000, 6, ["glass"], ""),
    (1100, 6, ["ride"], ""),
]


@pytest.fixture
def wordnet(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    from wordnet import WordNet

    data, index = ["  1 the licence"], ["  1 the licence"]
    for place, kind, names, pointers in MEANINGS:
        spelt = " ".join(f"{name} 0" for name in names)
        count = len(pointers.split()) // 4
        data.append(f"{place:08d} {kind:02d} n {len(names):02x} {spelt} {count:03d} {pointers} | a gloss | more")
        index += [f"{name.lower()} n 1 {count} {'@ ' * count}1 1 {place:08d}" for name in names]
    (tmp_path / "data.noun").write_text("\n".join(data))
    (tmp_path / "index.noun").write_text("\n".join(index))
    (tmp_path / "noun.exc").write_text("geese goose\n")
    (tmp_path / "cntlist.rev").write_text("ride%2:38:00:: 1 40\nride%1:04:00:: 1 2\ndog%1:05:00:: 1 42\n")
    return WordNet(tmp_path)


def test_a_pug_is_a_dog_and_an_animal(wordnet):
    assert wordnet.above(300) == {200, 100}
    assert wordnet.usual_places["domestic dog"] == 200
    assert wordnet.usual("living room").names == ("living room",)


@pytest.mark.parametrize(
    ("caption", "things"),
    [
        ("Two dogs and geese in a living room", {"dog", "goose", "room", "living room"}),
        ("a glass, a ride through Paris", {"glass"}),  # no verb, no name of a place
        ("some yobs", set()),
        ("the room", {"room"}),  # "the" makes no name of two
    ],
)
def test_a_caption_names_things_in_the_singular(wordnet, caption, things):
    from caption_words import things_in

    assert things_in(caption, wordnet) == things


def test_images_are_marked_where_a_caption_names_a_thing(wordnet):
    from caption_words import named_things

    captions = [(7, "a dog"), (8, "geese"), (7, "a pug dog"), (99, "a dog elsewhere")]
    assert named_things(captions, {7: 0, 8: 1}, wordnet) == {"dog": {0}, "pug": {0}, "goose": {1}}


def test_the_vocabulary_holds_no_person_and_begins_with_the_table(wordnet, monkeypatch):
    import everyday_words

    monkeypatch.setattr(
        everyday_words, "frequent_words", lambda most: ["room", "yob", "dog", "paris", "living", "ride"]
    )
    found = everyday_words.everyday_words(("wedding", "dog"), wordnet)
    assert found[:3] == ["wedding", "dog", "people"]
    assert "room" in found
    assert not {"yob", "paris", "ride"} & set(found)


def test_a_word_is_encoded_with_what_it_is(wordnet):
    from everyday_words import with_kin

    assert with_kin("pug", {"dog", "animal"}, wordnet) == "pug = pug, dog"
    assert with_kin("pug", {"animal"}, wordnet) == "pug = pug, dog", "an animal is too general"
    assert with_kin("domestic dog", set(), wordnet) == "domestic dog = domestic dog, dog"
    assert with_kin("room", {"dog"}, wordnet) == "room"


def test_known_words_are_used_by_people_and_known_to_the_tagger(wordnet):
    from collections import Counter

    from known_words import known_words

    spec = TaggerSpec(
        ("dog", "beach", "rare", "unknown", "unmeasured"),
        Preprocess(size=64),
        "test_efficientnet",
        "gap",
        metrics={"held_aside": {"AP": [1.0, 40.0, 90.0, 4.0, None]}},
    )
    named = Counter({"beach": 20, "rare": 19, "unknown": 500, "unmeasured": 30})
    assert known_words(spec, ("dog",), named) == ["dog", "beach"]


def test_words_that_name_an_unseen_label_are_known(wordnet):
    pytest.importorskip("sentence_transformers")
    from any_words import names_unseen

    assert names_unseen("pug", set())
    assert names_unseen("big cats and dogs", {151, 152, 281})
    assert not names_unseen("animal", {151, 281, 282})
    assert not names_unseen("beach", set())


def test_where_wordnet_is_missing_the_message_names_the_package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    monkeypatch.delitem(sys.modules, "wordnet", raising=False)
    from wordnet import WordNet

    with pytest.raises(SystemExit, match="apt-get install wordnet-base"):
        WordNet(tmp_path)
