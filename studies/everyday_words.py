"""A vocabulary of everyday words that can be seen, for the any-word tagger.

    apt-get install wordnet-base
    python studies/everyday_words.py runs/all-words/words.csv --out runs/everyday.txt

First the labels and words of the given table, then nouns of WordNet whose most usual meaning is a thing or a
happening, the most frequent first, until there are 10,000 in all. A word that is not in the table is given with what
WordNet says it is, preferably in a word of the table: "rucksack = rucksack, backpack". Encoded like this, words that
the encoder hardly knows come near to words that were trained. Words for people come from the table, and a few trades:
what others may call a person is not for a picture to say. `tagloom export RUN --vocabulary runs/everyday.txt` adds
their vectors to a tagger.
"""

import argparse
from pathlib import Path

from imagenet_words import VAGUE
from tagloom.data import load_table
from wordnet import KINDS, WordNet, frequent_words

VOCABULARY = 10_000
THINGS = ("animal", "artifact", "body", "food", "object", "phenomenon", "plant")
HAPPENINGS = (4, 11, 14, 28)  # WordNet's files of acts, events, groups and times
MOST_HAPPENINGS = 5000  # rarer ones can be seen in no picture
GENERAL = {  # a kind of these is not recognised by them: a swimsuit is not any clothing
    *(
        "animal",
        "beverage",
        "building",
        "clothing",
        "food",
        "furniture",
        "insect",
        "person",
        "plant",
        "tool",
        "vehicle",
    ),
}
ALSO = (  # what WordNet counts elsewhere, and people ask for
    *("people", "food", "animal", "plant", "autumn", "spring", "summer", "moon", "desert", "glasses", "sunglasses"),
    *("sunrise", "rainbow", "fireworks", "graffiti", "concert", "christmas tree", "portrait", "selfie", "astronaut"),
    *("firefighter", "dancer", "musician", "clown", "doctor", "nurse", "athlete", "crowd", "golden retriever"),
)
RARER = 20  # a name of two words is so much rarer than the rarer one of them
LOOKED_AT = 200_000  # of the most frequent words


def main() -> None:
    """Write the list, a word in each line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="label table whose classes come first")
    arguments.add_argument("--out", type=Path, default=Path("runs/everyday.txt"))
    given = arguments.parse_args()
    wordnet, trained = WordNet(), load_table(given.data).classes
    words = everyday_words(trained, wordnet)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    plain = {*trained, *ALSO}
    lines = [word if word in plain else with_kin(word, set(trained), wordnet) for word in words]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{given.out}: {len(words):,} words")


def everyday_words(first: tuple[str, ...], wordnet: WordNet) -> list[str]:
    """Give the first words, then things and happenings, the most frequent first."""
    rank = {word: number for number, word in enumerate(frequent_words(LOOKED_AT))}
    ranks = {}
    for word in wordnet.usual_places:
        parts = [rank.get(part, LOOKED_AT) for part in word.split()]
        if len(parts) <= 2 and is_thing(word, wordnet):
            ranks[word] = max(parts) * (1 if len(parts) == 1 else RARER)
        elif parts[0] < MOST_HAPPENINGS and is_happening(word, wordnet):
            ranks[word] = parts[0]
    return list(dict.fromkeys((*first, *ALSO, *sorted(ranks, key=ranks.__getitem__))))[:VOCABULARY]


def with_kin(word: str, trained: set[str], wordnet: WordNet) -> str:
    """Give a word with another name of it or of what it is a kind of, a trained one if there is any."""
    meaning = wordnet.usual(word)
    others = [name for name in meaning.names if name != word]
    kinds = [name for place in meaning.above for name in wordnet.meanings[place].names]
    known = [name for name in (*others, *kinds) if name in trained]
    kin = next((name for name in (*known, *others[:1], *kinds[:1]) if name not in VAGUE | GENERAL), None)
    return word if kin is None else f"{word} = {word}, {kin}"


def is_thing(word: str, wordnet: WordNet) -> bool:
    """Whether the usual meaning of a word, or two, is a thing."""
    return is_plain(word, wordnet) and KINDS.get(wordnet.usual(word).kind) in THINGS


def is_happening(word: str, wordnet: WordNet) -> bool:
    """Whether the usual meaning of a word is an act, an event, a group or a time."""
    return " " not in word and is_plain(word, wordnet) and wordnet.usual(word).kind in HAPPENINGS


def is_plain(word: str, wordnet: WordNet) -> bool:
    """Whether a word is usually a noun, in the singular, and neither a name nor slang."""
    return wordnet.usual(word).plain and not (word in wordnet.irregular or word in wordnet.seldom_nouns)


if __name__ == "__main__":
    main()
