"""Tagging many files: finding the images, and writing their tags as they come."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from tagloom.data.images import IMAGE_SUFFIXES, find_images
from tagloom.errors import DataError, ImageError
from tagloom.files import is_file, is_folder, whole_file
from tagloom.hub import HUB_PREFIX
from tagloom.predict.tagger import Tag, Tagger
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[Path]]:
    """Split the arguments of `predict` into the tagger, None if there is none, and the images.

    Only the first argument can be a tagger: "hf-hub:owner/name", a folder with a tagger.json or a run that was
    started, or something that does not exist and has no image suffix: most likely a misspelt tagger. All others are
    image files and folders.
    """
    first, rest = arguments[0], arguments[1:]
    for argument in rest:
        if _is_tagger(argument):
            raise DataError(f"{argument}: is a tagger, but stands among the images. Name one tagger, as the first.")
    if _is_tagger(first):
        if not rest:
            raise DataError(f"{first}: is a tagger; name the images to tag after it: tagloom predict {first} a.jpg")
        return first, [Path(argument) for argument in rest]
    if is_file(Path(first)) or is_folder(Path(first)) or Path(first).suffix.lower() in IMAGE_SUFFIXES:
        return None, [Path(argument) for argument in arguments]
    if not rest:
        raise DataError(f"{first}: no such image, folder of images, or tagger folder.")
    return first, [Path(argument) for argument in rest]


def collect_images(paths: Sequence[Path]) -> list[Path]:
    """List image files, and the images in folders and their subfolders."""
    found: list[Path] = []
    for path in paths:
        if is_folder(path):
            inside = find_images(path)
            if not inside:
                raise DataError(f"{path}: no image in this folder or its subfolders.")
            found.extend(inside)
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def read_labels(given: str) -> list[str]:
    """Read labels separated by commas, or from a .txt file with one label per line.

    >>> read_labels('surfboard, golden retriever, "salt, pepper"')
    ['surfboard', 'golden retriever', 'salt, pepper']
    """
    from tagloom.data.parsing.classes import (
        read_classes,  # imported here: tables take longer to import than a tag to find
    )
    from tagloom.data.parsing.fields import split_labels

    if given.lower().endswith(".txt"):
        if not is_file(Path(given)):
            raise DataError(
                f"{given}: no such file. Give a text file with one label per line, or labels separated by commas."
            )
        return list(read_classes(Path(given)))
    return split_labels(given, ",")


def tag_files(
    tagger: Tagger, paths: Sequence[Path], *, threshold: float | None = None, top_k: int | None = None
) -> Iterator[tuple[Path, list[Tag] | ImageError]]:
    """Give the tags of each file, or its error, in order."""
    for index, result in tagger.stream(paths):
        yield paths[index], result if isinstance(result, ImageError) else tagger.tags(result, threshold, top_k)


def write_tags(rows: Iterable[tuple[Path, list[Tag]]], path: Path) -> int:
    """Write tags to a .csv or .jsonl file, whole or not at all.

    A CSV has the columns image, labels and scores; values are joined by `|`, as `load_table` reads them.

    Returns:
        The number of images written.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise DataError(f"{path}: tags are written as .csv or .jsonl; use one of these suffixes.")
    write = _write_csv if path.suffix == ".csv" else _write_json_lines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            return write(((_relative_to(path.parent, image), tags) for image, tags in rows), file)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). Name another --out.") from error


def _is_tagger(argument: str) -> bool:
    """Check for a tagger, or for a run that was started and will be one."""
    return argument.startswith(HUB_PREFIX) or any(is_file(Path(argument) / name) for name in (SPEC_FILE, RUN_FILE))


def _relative_to(folder: Path, image: Path) -> Path:
    """Give an image's path relative to the folder of the file that lists it, as in a label table."""
    return Path(os.path.relpath(image.resolve(), folder.resolve()))


def _write_csv(rows: Iterable[tuple[Path, list[Tag]]], file: IO[str]) -> int:
    from tagloom.data.parsing.fields import join_labels

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
