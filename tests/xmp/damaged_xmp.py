"""Damages XMP documents, writes and removes keywords in them, and prints what happened. A process of its own.

python tests/xmp/damaged_xmp.py 20000
"""

import json
import random
import re
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "data"))

from damaged_tables import peak_memory
from mutations import mutate
from sidecars import DOCUMENTS

from tagloom.errors import DataError
from tagloom.xmp.document import read_document
from tagloom.xmp.editing import Writing, with_review, with_tags, without_tags
from tagloom.xmp.keywords import find_keywords
from tagloom.xmp.marks import ScoredTag

LONGEST_MESSAGE = 1000
NAME = "photo.jpg.xmp"
_PIECES = re.compile(
    r"<(\w+:\w+)[^<>]*>[^<]*</\1>|<rdf:(Bag|Seq)>.*?</rdf:\2>|<(dc|lr):\w+>.*?</\3:\w+>|\s+|<[^>]+/>", re.DOTALL
)
_INSERTED = (
    "<rdf:li>sofa &amp; chair</rdf:li>",
    "<rdf:li/>",
    '<dc:subject xmlns:dc="http://purl.org/dc/elements/1.1/"><rdf:Bag/></dc:subject>',
    "<rdf:Description/>",
    '<rdf:Description><tagloom:Added xmlns:tagloom="urn:tagloom:keywords/1.0/"><rdf:Bag><rdf:li>dc:subject sea</rdf:li>'
    "</rdf:Bag></tagloom:Added></rdf:Description>",
    "<?xpacket end='r'?>",
)
WRITING = Writing((ScoredTag("Animals|Dog", 0.9), ScoredTag("sofa & chair", 0.5)), "first", "01", "2026-05-01")


def main(rounds: int) -> None:
    """Damage and edit; print one line of JSON. Anything but a `DataError` ends the process with a traceback."""
    rng = random.Random(rounds)
    whole = list(DOCUMENTS.values())
    marked = [with_review(with_tags(data, NAME, WRITING), NAME, ["sofa & chair"], "2026-06-01") for data in whole]
    marked += [with_tags(data, NAME, WRITING) for data in whole]
    results, slowest, before = Counter[str](), 0.0, peak_memory()
    for number in range(rounds):
        chosen = rng.choice(whole if number % 2 else marked)
        data = rearrange(chosen, rng) if number % 4 > 1 else mutate(chosen, whole + marked, rng)
        started = time.monotonic()
        try:
            results[outcome(data)] += 1
        except DataError as error:
            if not str(error).startswith(NAME) or len(str(error)) > LONGEST_MESSAGE:
                sys.exit(f"a bad message: {str(error)[:3000]} for {data!r}")
            results["refused"] += 1
        except BaseException:  # noqa: BLE001  whatever it is, it is not ours
            traceback.print_exc()
            sys.exit(f"an error that is not ours, for {data!r}")
        slowest = max(slowest, time.monotonic() - started)
    print(json.dumps({"results": results, "slowest": slowest, "memory": peak_memory() - before}))


def rearrange(data: bytes, rng: random.Random) -> bytes:
    """Change a document as programs and hands do: it mostly stays XML, which damaged bytes seldom do."""
    encoding = "utf-16" if data[:2] == b"\xff\xfe" and data[2:4] != b"\0\0" else "utf-8"
    text = data.decode(encoding, "replace")
    for _ in range(rng.choice((1, 2, 4, 8))):
        pieces = [found.span() for found in _PIECES.finditer(text)]
        start, end = rng.choice(pieces) if pieces else (0, 0)
        piece = text[start:end]
        new = rng.choice(
            (
                "",
                piece * 2,
                f"{piece}\n  ",
                f"<!-- {rng.randrange(9)} -->{piece}",
                piece.replace("Bag", "Seq"),
                piece.replace("rdf:li>", "rdf:li >"),
                piece.replace('"', "'"),
                piece.replace("sofa", rng.choice(("SOFA", "d\u00f6g|x", "&#x1F600;", "<![CDATA[<]]>", "  ", "a/b"))),
                rng.choice(_INSERTED) + piece,
            )
        )
        text = text[:start] + new + text[end:]
    return text.encode(encoding, "surrogatepass")


def outcome(data: bytes) -> str:
    """Write and remove keywords in a document: "as it was" if every byte is back, else "edited" with nothing lost."""
    own = set(find_keywords(read_document(data, NAME)).own)
    written = with_tags(data, NAME, WRITING)
    removed = without_tags(written, NAME)
    for result in (written, removed):
        if lost := own - set(find_keywords(read_document(result, NAME)).own):
            sys.exit(f"{lost} of the owner's keywords were lost, for {data!r}")
    if removed == data:
        return "as it was"
    if b"tagloom" not in data.replace(b"\0", b""):
        sys.exit(f"not as it was, for {data!r}")
    return "edited"  # there were marks of ours, damaged or not, and they are gone or written anew


if __name__ == "__main__":
    main(int(sys.argv[1]))
