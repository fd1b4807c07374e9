"""Tagging many files: finding the images, and writing their tags as they come."""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from tagloom.data.images import IMAGE_SUFFIXES, find_images
from tagloom.errors import DataError, ImageError
from tagloom.files import is_file, is_folder, whole_file
from tagloom.hub import HUB_PREFIX
from tagloom.predict.journal import Journal
from tagloom.predict.tagger import Tag, Tagger
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE

BATCH_SIZE = 32
KEPT = "What is done is kept: make room, and continue with the same command and --resume."


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
    for index, result in tagger.stream(paths, BATCH_SIZE):
        yield paths[index], result if isinstance(result, ImageError) else tagger.tags(result, threshold, top_k)


class Tagged(NamedTuple):
    """How many images were tagged, and how many cannot be read."""

    tagged: int
    failed: int


def tag_to_file(
    tagger: Tagger,
    paths: Sequence[Path],
    out: Path,
    *,
    threshold: float | None = None,
    top_k: int | None = None,
    resume: bool = False,
    on_error: Callable[[ImageError], None] = lambda error: None,
    on_image: Callable[[int, int], None] = lambda done, total: None,
) -> Tagged:
    """Tag files and write their tags as `write_tags` does. What is done when it is stopped is kept in a journal.

    Args:
        tagger: The tagger.
        paths: The image files.
        out: The .csv or .jsonl file.
        threshold: See `Tagger.predict`.
        top_k: See `Tagger.predict`.
        resume: Continue the journal of a run that was stopped, if there is one. The file is then the same, byte for
            byte, as that of a run that was not stopped.
        on_error: Called with each image that cannot be read.
        on_image: Called after each image with images done and images to do. It may raise to stop.

    Raises:
        DataError: If there is a journal and `resume` is not set, or if it was begun with other images or options.
    """
    _check_name(out)
    naming = Naming(out.parent)
    names = [naming.name(path) for path in paths]
    identity = hashlib.blake2b(repr(tagger.spec).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    asked = {"tagger": f"{identity} in {tagger.engine}", "threshold": threshold, "top_k": top_k}
    with _writing(out, KEPT), Journal(out, asked, names, resume=resume, chunk=BATCH_SIZE) as journal:
        on_image(journal.done, len(paths))
        for _, tags in tag_files(tagger, paths[journal.done :], threshold=threshold, top_k=top_k):
            if isinstance(tags, ImageError):
                on_error(tags)
            journal.add(None if isinstance(tags, ImageError) else tags)
            on_image(journal.done, len(paths))
        _write(((entry.image, entry.tags) for entry in journal.entries() if entry.tags is not None), out)
        journal.delete()
        return Tagged(journal.done - journal.failed, journal.failed)


def write_tags(rows: Iterable[tuple[Path, list[Tag]]], path: Path) -> int:
    """Write tags to a .csv or .jsonl file, whole or not at all.

    A CSV has the columns image, labels and scores; values are joined by `|`, as `load_table` reads them. Paths are
    relative to the folder of the file. `path_field` and `join_labels` say how odd names are written.

    Returns:
        The number of images written.
    """
    _check_name(path)
    naming = Naming(path.parent)
    with _writing(path, "Name another --out."):
        return _write(((naming.name(image), tags) for image, tags in rows), path)


class Naming:
    """Names images in a file of tags: relative to its folder, as in a label table.

    A link is named as the link, whatever it points to. A file on another drive is named by its whole path.

    Args:
        folder: The folder of the file of tags.
    """

    def __init__(self, folder: Path) -> None:
        self._real = folder.resolve()
        self._folders = (folder.absolute(), self._real)

    def name(self, image: Path) -> str:
        """Give the path of an image as the file of tags writes it."""
        # Only the real folder above "link/.." is known to the system, so such a path has to be resolved.
        above = image.parent.resolve() if ".." in image.parts else image.parent.absolute()
        target = above / image.name
        for folder in self._folders:
            if target.is_relative_to(folder):
                return target.relative_to(folder).as_posix()
        try:
            return Path(os.path.relpath(target, self._real)).as_posix()
        except ValueError:  # on Windows, between drives
            return target.as_posix()


def _is_tagger(argument: str) -> bool:
    """Check for a tagger, or for a run that was started and will be one."""
    return argument.startswith(HUB_PREFIX) or any(is_file(Path(argument) / name) for name in (SPEC_FILE, RUN_FILE))


def _check_name(path: Path) -> None:
    if path.suffix not in (".csv", ".jsonl"):
        raise DataError(f"{path}: tags are written as .csv or .jsonl; use one of these suffixes.")
    if path.is_dir():
        raise DataError(f"{path}: is a folder. Name a file.")


@contextmanager
def _writing(path: Path, advice: str) -> Iterator[None]:
    """Make the folder of a file, and turn what the system says about it into a message."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). Name another --out.") from error
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). {advice}") from error


def _write(rows: Iterable[tuple[str, list[Tag]]], path: Path) -> int:
    write = _write_csv if path.suffix == ".csv" else _write_json_lines
    # No text file holds the surrogates that stand for bytes of a file name. As a JSON escape they are read back.
    safely = "backslashreplace"
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8", errors=safely) as file:
        return write(rows, file)


def _write_csv(rows: Iterable[tuple[str, list[Tag]]], file: IO[str]) -> int:
    from tagloom.data.parsing.fields import join_labels
    from tagloom.data.parsing.image_paths import path_field

    writer = csv.writer(file)
    writer.writerow(["image", "labels", "scores"])
    count = 0
    for image, tags in rows:
        labels, scores = join_labels([tag.label for tag in tags]), "|".join(f"{tag.score:.4f}" for tag in tags)
        writer.writerow([path_field(image), labels, scores])
        count += 1
    return count


def _write_json_lines(rows: Iterable[tuple[str, list[Tag]]], file: IO[str]) -> int:
    count = 0
    for image, tags in rows:
        line = {"image": image, "tags": [{"label": tag.label, "score": round(tag.score, 4)} for tag in tags]}
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        count += 1
    return count
