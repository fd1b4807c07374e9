"""Reading label tables: one parser per form, and one function that tells the forms apart.

| form | what is given |
| --- | --- |
| CSV or TSV | a file with a header: images, and their labels in one column or a column per class |
| Parquet | the same in a .parquet file |
| JSON lines | the same in a .jsonl file |
| image folder | a folder with metadata.csv or metadata.jsonl, as Hugging Face datasets have |
| COCO | an instances_*.json file |
| NUS-WIDE | a data.csv of paths, lists of labels in brackets, and splits; or the folder of its own lists |
| Open Images | a CSV of human image-level labels, with the other files beside it |
| Pascal VOC | a folder with JPEGImages and Annotations or ImageSets, or a list in ImageSets/Main |
| class folders | a folder with one folder of images per class |
"""

import inspect
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tagloom.data.formats.coco import is_coco, read_coco
from tagloom.data.formats.delimited import is_delimited, read_delimited
from tagloom.data.formats.folders import is_class_folders, read_class_folders
from tagloom.data.formats.jsonlines import is_image_folder, is_json_lines, read_image_folder, read_json_lines
from tagloom.data.formats.nuswide import is_nus_wide, read_nus_wide
from tagloom.data.formats.nuswide_lists import is_nus_wide_lists, read_nus_wide_lists
from tagloom.data.formats.openimages import is_open_images, read_open_images
from tagloom.data.formats.parquet import is_parquet, read_parquet
from tagloom.data.formats.voc import is_voc, read_voc
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, unknown_name

# The first form that recognises a path reads it: a split of VOC is a .txt, the files of NUS-WIDE and Open Images are
# .csv, and the folders of VOC and NUS-WIDE hold images too.
_FORMS: tuple[tuple[Callable[[Path], bool], Callable[..., LabelTable]], ...] = (
    (is_voc, read_voc),
    (is_nus_wide, read_nus_wide),
    (is_open_images, read_open_images),
    (is_delimited, read_delimited),
    (is_parquet, read_parquet),
    (is_json_lines, read_json_lines),
    (is_coco, read_coco),
    (is_nus_wide_lists, read_nus_wide_lists),
    (is_image_folder, read_image_folder),
    (is_class_folders, read_class_folders),
)
_UNDERSTOOD = (
    "Understood are: a .csv, .tsv, .parquet or .jsonl file with images and labels; a folder with metadata.csv or "
    "metadata.jsonl; a COCO instances .json; a Pascal VOC folder or a list in its ImageSets/Main; NUS-WIDE's or "
    "Open Images' own files; a folder with one folder of images per class."
)


def load_table(path: str | os.PathLike[str], *, classes: Sequence[str] | None = None, **choices: Any) -> LabelTable:
    """Read a label table, whatever form it has.

    Args:
        path: The file or folder. `FILE#NAME` is the file with the choice split=NAME, so that two splits of one file can
            be named in one command.
        classes: The order of classes wanted. A label that is not among them is an error.
        **choices: What the form leaves open, as its own reader documents: `images`, `image_column`, `label_column`
            and `separator` for CSV, Parquet and JSON lines; `images` and `unannotated` for COCO; `split` and
            `images` for NUS-WIDE, and `unannotated` for its own lists; `images`, `machine` and `min_confidence` for
            Open Images; `split` and `difficult` for Pascal VOC.

    Raises:
        DataError: Saying what was found, where, and what to do.
    """
    given = Path(path)
    if "\0" in str(given):
        raise DataError(f"{str(given)!r}: a path cannot hold a zero byte.")
    before, mark, split = str(given).rpartition("#")
    if mark and not given.exists() and Path(before).exists():
        given, choices = Path(before), {**choices, "split": split}
    if not given.exists():
        raise DataError(f"{given}: there is no such file or folder. {_UNDERSTOOD}")
    if classes is not None:
        _check_classes(classes)
    try:
        read = next((read for recognises, read in _FORMS if recognises(given)), None)
        if read is None:
            raise DataError(f"{given}: found nothing here that holds labels.{_hint(given)} {_UNDERSTOOD}")
        _check_choices(given, read, choices)
        return read(given, classes, **choices)
    except OSError as error:
        raise DataError(f"{given}: cannot be read ({error}). Check the path and its permissions.") from error


def _check_classes(classes: Sequence[str]) -> None:
    if isinstance(classes, str):
        raise DataError(f"classes is a list of names, found the text {classes[:40]!r}")
    for name, times in Counter(classes).items():
        if not isinstance(name, str) or not name or times > 1:
            found = f"{name!r} {times} times" if times > 1 else repr(name)
            raise DataError(f"classes must be names that differ, found {found}")


def _check_choices(path: Path, read: Callable[..., LabelTable], choices: dict[str, Any]) -> None:
    if read is read_image_folder:
        read = read_delimited  # the metadata file's own choices
    known = [name for name in inspect.signature(read).parameters if name not in ("path", "classes")]
    for name in choices:
        if name not in known:
            raise DataError(f"{path}: {unknown_name('choice for this form of table', name, known)}")


def _hint(path: Path) -> str:
    """Tables that lie in the folder, for whoever gave the folder instead."""
    files = sorted(str(file) for recognises, _ in _FORMS[1:7] for file in path.glob("*") if recognises(file))
    return f" Perhaps {' or '.join(files[:4])} was meant." if files else ""
