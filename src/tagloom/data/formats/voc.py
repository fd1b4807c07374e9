"""Pascal VOC folders: annotations as XML files or as one list of images per class, and splits as lists of image ids.

An object may be marked difficult. For a class of which an image has only difficult objects, VOC's evaluation skips the
image, and its per-class lists have a 0 between 1 and -1. So such pairs are unknown by default.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from xml.parsers import expat

from tagloom.data.formats.format import Format
from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.options import check_option
from tagloom.data.parsing.image_paths import check_distinct
from tagloom.data.parsing.pairs import PairRows
from tagloom.data.regular_file import read_regular
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import first_line, shown

Difficult: TypeAlias = Literal["positive", "negative", "unknown"]
MAX_XML_BYTES = 4 * 2**20
MAX_LIST_BYTES = 64 * 2**20
MAX_DEPTH = 100  # of tags in tags; annotations of VOC have five
_OBJECT_NAME, _OBJECT_DIFFICULT = ["annotation", "object", "name"], ["annotation", "object", "difficult"]


def is_voc(path: Path) -> bool:
    """Whether a path is a VOC folder, a VOCdevkit that contains one, or the list of a split in ImageSets/Main."""
    if path.is_file():
        return path.suffix == ".txt" and path.parent.parts[-2:] == ("ImageSets", "Main")
    return bool(_devkit(path))


def read_voc(
    path: Path, classes: Sequence[str] | None = None, *, split: str | None = None, difficult: Difficult = "unknown"
) -> LabelTable:
    """Read a VOC folder from Annotations/*.xml or, if there are none, from ImageSets/Main/<class>_<split>.txt.

    Args:
        path: A folder such as VOCdevkit/VOC2007, the devkit, or the list of a split in it.
        classes: The order of classes; by default sorted.
        split: A list in ImageSets/Main, such as trainval; by default every image with an annotation.
        difficult: What the pair is if an image has only difficult objects of the class.
    """
    check_option(path, "difficult", difficult, get_args(Difficult))
    folder, split = _folder_and_split(path, split)
    annotations, lists = folder / "Annotations", folder / "ImageSets" / "Main"
    ids = _split_ids(lists, split) if split else sorted(file.stem for file in annotations.glob("*.xml"))
    if not ids:
        raise DataError(f"{folder}: no annotations and no split chosen. {_splits(lists)}")
    if annotations.is_dir():
        marks = [_read_objects(annotations / f"{name}.xml") for name in ids]
    elif split:
        marks = _read_class_lists(lists, split, ids)
    listed = {_class_of(file) for file in _class_lists(lists, split or "trainval")}
    names = tuple(sorted(listed.union(*marks)))
    if not names:
        raise DataError(f"{folder}: the {len(ids)} annotations contain no object, so there is no class to learn.")

    column_of = {name: column for column, name in enumerate(names)}
    positive, unknown = PairRows(), PairRows()
    for mark in marks:
        sure = [column_of[name] for name, is_sure in mark.items() if is_sure or difficult == "positive"]
        positive.append(sure)
        unknown.append([column_of[name] for name, is_sure in mark.items() if not is_sure and difficult == "unknown"])
    exceptions = unknown.to_matrix(len(names))
    table = LabelTable(
        folder,
        _image_paths(folder, ids),
        names,
        positive.to_matrix(len(names)),
        exceptions if exceptions.nnz else None,
        source=str(folder) + (f" ({split})" if split else ""),
    )
    return table if classes is None else table.with_classes(classes)


def _devkit(path: Path) -> list[Path]:
    """List the VOC folders that a path is or contains."""
    candidates = [path, *sorted(path.glob("VOC[0-9]*")), *sorted(path.glob("VOCdevkit/VOC[0-9]*"))]
    return [
        folder
        for folder in candidates
        if (folder / "JPEGImages").is_dir() and ((folder / "Annotations").is_dir() or (folder / "ImageSets").is_dir())
    ]


def _folder_and_split(path: Path, split: str | None) -> tuple[Path, str | None]:
    if path.is_file():
        if split is not None and split != path.stem:
            raise DataError(
                f"{path}: this is the list of {shown(path.stem)}, but split is {shown(split)}. Give one of them."
            )
        return path.parents[2], path.stem
    found = _devkit(path)
    if len(found) > 1:
        raise DataError(f"{path}: contains several VOC folders: {', '.join(map(str, found))}. Give one of them.")
    return found[0], split


def _split_ids(lists: Path, split: str) -> list[str]:
    file = lists / f"{split}.txt"
    if not split.replace("_", "").replace("-", "").isalnum() or not file.is_file():
        raise DataError(f"{lists}: there is no split {shown(split)}. {_splits(lists)}")
    ids = [words[0] for words in _list_lines(file)]
    for name in ids:
        if "/" in name or "\\" in name or "\0" in name:
            raise DataError(f"{file}: {shown(name)} is not an image id. Ids are file names without folder and suffix.")
    if not ids:
        raise DataError(f"{file}: no image ids. Expected one per line.")
    check_distinct(ids, str(file))
    return ids


def _splits(lists: Path) -> str:
    names = sorted(file.stem for file in lists.glob("*.txt") if "_" not in file.stem)
    return f"Splits found: {', '.join(names) or 'none'}. Choose one with split=NAME (--data-option split=NAME)."


def _read_class_lists(lists: Path, split: str, ids: Sequence[str]) -> list[dict[str, bool]]:
    """Return for each image its classes, and whether they are sure (1) or difficult (0)."""
    files = _class_lists(lists, split)
    if not files:
        raise DataError(
            f"{lists}: neither Annotations/*.xml nor <class>_{split}.txt. One of them must contain the labels."
        )
    row_of = {name: row for row, name in enumerate(ids)}
    marks: list[dict[str, bool]] = [{} for _ in ids]
    for file in files:
        for number, words in enumerate(_list_lines(file), start=1):
            if len(words) != 2 or words[0] not in row_of or words[1] not in ("1", "0", "-1"):
                raise DataError(
                    f"{file}, entry {number}: expected an image of {split} and 1, 0 or -1, found "
                    f"{shown(' '.join(words))}."
                )
            if words[1] != "-1":
                marks[row_of[words[0]]][_class_of(file)] = words[1] == "1"
    return marks


def _class_lists(lists: Path, split: str) -> list[Path]:
    """Find the lists of one class each. They have two words per line; the name of a split may end the same way."""
    files = sorted(lists.glob(f"*_{split}.txt"))
    return [file for file in files if any(len(words) == 2 for words in _list_lines(file)[:1])]


def _class_of(file: Path) -> str:
    return file.stem.rpartition("_")[0]  # potted_plant_trainval -> potted_plant


def _list_lines(file: Path) -> list[list[str]]:
    data = read_regular(file, MAX_LIST_BYTES)
    if len(data) > MAX_LIST_BYTES:
        raise DataError(f"{file}: larger than {MAX_LIST_BYTES} bytes. Expected one image id per line.")
    return [words for line in data.decode("utf-8", errors="replace").splitlines() if (words := line.split())]


def _read_objects(file: Path) -> dict[str, bool]:
    """Return the classes annotated in an image, and whether some object of each is not difficult."""
    try:
        text = read_regular(file, MAX_XML_BYTES)
    except OSError as error:
        raise DataError(
            f"{file}: cannot be read ({error.strerror}). Add it, or remove the image from the split."
        ) from error
    if len(text) > MAX_XML_BYTES:
        raise DataError(f"{file}: larger than {MAX_XML_BYTES} bytes. Expected the annotation of one image.")

    marks: dict[str, bool] = {}
    open_tags: list[str] = []
    values: dict[str, list[str]] = {}

    def start(tag: str, _attributes: object) -> None:
        open_tags.append(tag)
        if len(open_tags) > MAX_DEPTH:
            raise DataError(
                f"{file}, line {parser.CurrentLineNumber}: tags are nested more than {MAX_DEPTH} deep. Is this an "
                "annotation?"
            )
        if open_tags == ["annotation", "object"]:
            values.clear()

    def characters(data: str) -> None:
        if open_tags in (_OBJECT_NAME, _OBJECT_DIFFICULT):
            values.setdefault(open_tags[-1], []).append(data)

    def end(_tag: str) -> None:
        if open_tags == ["annotation", "object"]:
            name = "".join(values.get("name", [])).strip()
            if not name:
                raise DataError(
                    f"{file}, line {parser.CurrentLineNumber}: an object has no name. Name it or remove it."
                )
            marks[name] = marks.get(name, False) or "".join(values.get("difficult", [])).strip() != "1"
        open_tags.pop()

    def refuse(*_details: object) -> None:
        raise DataError(f"{file}: XML with a document type or entities is refused. Remove the DOCTYPE.")

    # Expat directly, because it lets us refuse a document type before anything in it is processed.
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, characters, end
    parser.StartDoctypeDeclHandler = refuse
    parser.buffer_text = True
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise DataError(
            f"{file}: not well-formed XML ({first_line(error)}). Correct it, or remove the image from the split."
        ) from error
    return marks


def _image_paths(folder: Path, ids: Sequence[str]) -> list[str]:
    """Return paths relative to the folder. An image that does not exist gets VOC's usual suffix."""
    files = {
        file.stem: file.name for file in (folder / "JPEGImages").iterdir() if file.suffix.lower() in IMAGE_SUFFIXES
    }
    return [f"JPEGImages/{files.get(name, f'{name}.jpg')}" for name in ids]


VOC = Format(
    "Pascal VOC",
    "a Pascal VOC folder or a list in its ImageSets/Main",
    is_voc,
    read_voc,
    ("split", "difficult"),
    suggested=False,
)
