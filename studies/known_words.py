"""The labels that the any-word tagger tags with: those that people use, and that it knows.

    python studies/known_words.py runs/any coco/val.csv captions.csv --out runs/known.txt

Of a run with word queries, the classes of a table come first. The others are kept if captions name them often enough,
so that they are words that people use of photographs, and if they are known, by their average precision on the images
that training held out. Whether a person is a man or a woman is not told. `tagloom export RUN --labels runs/known.txt`
makes a tagger of these; whoever types another word is still answered.
"""

import argparse
from collections import Counter
from pathlib import Path

from caption_words import read_captions, things_in
from imagenet_words import MIN_POSITIVES, VAGUE
from tagloom.data import load_table
from tagloom.tagger.spec import TaggerSpec, read_spec
from wordnet import WordNet

NOT_TOLD = {"boy", "female", "girl", "guy", "lady", "male", "man", "woman"}  # by a look, which is often wrong
LEAST_PRECISION = 5.0  # percent; captions leave most of what is there unsaid, so this is not as low as it looks


def main() -> None:
    """Write the list, a word in each line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run", type=Path, help="a finished training with word queries")
    arguments.add_argument("data", help="label table whose classes come first")
    arguments.add_argument("captions", type=Path, help="as studies/caption_words.py takes them")
    arguments.add_argument("--out", type=Path, default=Path("runs/known.txt"))
    given = arguments.parse_args()
    wordnet = WordNet()
    named = Counter(thing for _, caption in read_captions(given.captions) for thing in things_in(caption, wordnet))
    words = known_words(read_spec(given.run), load_table(given.data).classes, named)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(words) + "\n", encoding="utf-8")
    print(f"{given.out}: {len(words):,} words")


def known_words(spec: TaggerSpec, first: tuple[str, ...], named: Counter[str]) -> list[str]:
    """Give the first words, then the classes of a run that captions name and that it knows."""
    precision = dict(zip(spec.classes, spec.metrics["held_aside"]["AP"], strict=True))
    kept = [
        word
        for word in spec.classes
        if word not in NOT_TOLD | VAGUE
        and named[word] >= MIN_POSITIVES
        and precision[word] is not None
        and precision[word] >= LEAST_PRECISION
    ]
    return list(dict.fromkeys((*first, *kept)))


if __name__ == "__main__":
    main()
