"""Tagging many files: finding them, and writing their tags as they come."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from tagloom.data.images import IMAGE_SUFFIXES, find_images
from tagloom.errors import DataError, ImageError
from tagloom.files import whole_file
from tagloom.predict.tagger import HUB_PREFIX, Tag, Tagger
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE


def split_arguments(places: Sequence[str]) -> tuple[str | None, list[Path]]:
    """Part what was named into the tagger, None where none is, and the pictures.

    Only the first can be a tagger: "hf-hub:owner/name", a folder with a tagger.json or a run that was begun, or
    something that is not there and does not end like an image, which is a tagger's name misspelt. All else is pictures.
    """
    first, rest = places[0], places[1:]
    for place in rest:
        if _is_tagger(place):
            raise DataError(f"{place}: is a tagger, and stands among the pictures. Name it first, and only one.")
    if _is_tagger(first):
        if not rest:
            raise DataError(f"{first}: is a tagger; name the pictures to tag after it: tagloom predict {first} a.jpg")
        return first, [Path(place) for place in rest]
    if Path(first).exists() or Path(first).suffix.lower() in IMAGE_SUFFIXES:
        return None, [Path(place) for place in places]
    if not rest:
        raise DataError(f"{first}: no such picture, folder of pictures, or tagger folder.")
    return first, [Path(place) for place in rest]


def collect_images(places: Sequence[Path]) -> list[Path]:
    """List the images that files and folders name, folders searched to the bottom."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = find_images(place)
            if not inside:
                raise DataError(f"{place}: no image in this folder or below it.")
            found.extend(inside)
        else:
            found.append(place)
    return list(dict.fromkeys(found))


def read_labels(given: str) -> list[str]:
    """Read labels that were typed, joined by commas, or that a .txt file lists one a line.

    >>> read_labels('surfboard, golden retriever, "salt, pepper"')
    ['surfboard', 'golden retriever', 'salt, pepper']
    """
    from tagloom.data.formats.classes import read_classes  # here, since tables take longer to import than a tag to find
    from tagloom.data.formats.fields import split_labels

    if given.lower().endswith(".txt"):
        if not Path(given).is_file():
            raise DataError(
                f"{given}: no such file. Give a text file with one label a line, or labels joined by commas."
            )
        return list(read_classes(Path(given)))
    return split_labels(given, ",")


def tag_files(
    tagger: Tagger, paths: Sequence[Path], *, threshold: float | None = None, top_k: int | None = None
) -> Iterator[tuple[Path, list[Tag] | ImageError]]:
    """Give the tags of each file, or what is wrong with it, in order."""
    for place, result in tagger.stream(paths):
        yield paths[place], result if isinstance(result, ImageError) else tagger.tags(result, threshold, top_k)


def write_tags(rows: Iterable[tuple[Path, list[Tag]]], path: Path) -> int:
    """Write tags to a .csv or .jsonl file, whole or not at all.

    A CSV has image, labels and scores, joined by `|` as `load_table` reads them.

    Returns:
        The number of images written.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise DataError(f"{path}: tags are written as .csv or .jsonl; end the name in one of these.")
    write = _write_csv if path.suffix == ".csv" else _write_json_lines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            return write(((_seen_from(path.parent, image), tags) for image, tags in rows), file)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). Name another --out.") from error


def _is_tagger(place: str) -> bool:
    """Whether a place is a tagger, or a training that was begun and will be one."""
    return place.startswith(HUB_PREFIX) or any((Path(place) / name).is_file() for name in (SPEC_FILE, RUN_FILE))


def _seen_from(folder: Path, image: Path) -> Path:
    """Give an image's path relative to the folder of the file that names it, as label tables are read."""
    return Path(os.path.relpath(image.resolve(), folder.resolve()))


def _write_csv(rows: Iterable[tuple[Path, list[Tag]]], file: IO[str]) -> int:
    from tagloom.data.formats.fields import join_labels

    writer = csv.writer(file)
    writer.writerow(["image", "labels", "scores"])
    count = 0
    for path, tags in rows:
        writer.writerow([path, join_labels([tag.label for tag in tags]), "|".join(f"{tag.score:.4f}" for tag in tags)])
        count += 1
    return count


def _write_json_lines(rows: Iterable[tuple[Path, list[Tag]]], file: IO[str]) -> int:
    count = 0
    for path, tags in rows:
        line = {"image": str(path), "tags": [{"label": tag.label, "score": round(tag.score, 4)} for tag in tags]}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        count += 1
    return count
