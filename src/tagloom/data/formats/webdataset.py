"""WebDataset tars: images with their labels in a .json, .cls or .txt file of the same key."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from tagloom.data.formats.format import Format
from tagloom.data.packed.images import PackedImages, distinct_name
from tagloom.data.packed.tars import LABEL_SUFFIXES, MAX_SAMPLES, TarImages, labels_of, samples_of
from tagloom.data.parsing.sheet import SHEET_OPTIONS, Cell, Sheet, SheetOptions
from tagloom.data.parsing.sheet_table import LABEL_COLUMNS, read_sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import shown

_IMAGE, _LABELS = "image", "labels"
_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
_MAX_TARS = 1_000_000


def is_webdataset(path: Path) -> bool:
    """Whether a path is a tar, a folder of tars, or a pattern of them such as `photos-{000..012}.tar`."""
    if path.is_dir():
        return bool(_tars_in(path))
    return path.suffix.lower() == ".tar" and (path.is_file() or _RANGE.search(path.name) is not None)


def read_webdataset(
    path: str | Path | Sequence[str], classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]
) -> LabelTable:
    """Read tars. Labels are a field of the JSON with a usual name (`labels`, `tags`, …), or the .cls or .txt file.

    Args:
        path: A tar, a folder of tars, a pattern such as `photos-{000..012}.tar`, or several of them.
        classes: The order of classes; by default that of `classes.txt` next to the tars, else sorted.
        **options: Those of any sheet; `label_column` is the field of the JSON.
    """
    given = [path] if isinstance(path, str | Path) else list(path)
    tars = [tar for place in given for tar in _expanded(Path(place))]
    source = str(given[0]) if len(given) == 1 else f"{given[0]} … {given[-1]}"
    places: list[list[tuple[int, int]]] = []
    samples: list[tuple[str, Cell]] = []
    for tar in tars:
        places.append([])
        for sample in samples_of(tar):
            if len(samples) >= MAX_SAMPLES:
                raise DataError(f"{source}: more than {MAX_SAMPLES:,} samples. Read some of the tars at a time.")
            places[-1].append((sample.start, sample.size))
            samples.append((sample.name, labels_of(tar, sample, options.get("label_column"), LABEL_COLUMNS)))
    if not samples:
        raise DataError(f"{source}: holds no image with a known suffix, such as 0007.jpg.")
    if all(labels is None for _, labels in samples):
        raise DataError(
            f"{source}: no sample has labels. They are in a file of the same key: {', '.join(LABEL_SUFFIXES)}."
        )
    store = TarImages(tars, places)
    taken: set[str] = set()
    names = [distinct_name(name, number, store, taken) for number, (name, _) in enumerate(samples)]

    def rows() -> Iterator[tuple[int, Sequence[Cell]]]:
        for number, (name, (_, labels)) in enumerate(zip(names, samples, strict=True), 1):
            yield number, (name, labels)

    sheet = Sheet(Path(tars[0]), (_IMAGE, _LABELS), rows, unit="sample", on_disk=False)
    table = read_sheet(sheet, classes, **{**options, "image_column": _IMAGE, "label_column": _LABELS})  # type: ignore[arg-type]
    packed = PackedImages(store, np.arange(len(names)))
    return replace(table, root=Path(tars[0]).parent, source=source, packed=packed)


def _expanded(place: Path) -> list[str]:
    if place.is_dir():
        return [str(tar) for tar in _tars_in(place)]
    found = _RANGE.search(place.name)
    if found is None or place.is_file():
        if place.suffix.lower() != ".tar":
            raise DataError(f"{place}: several places can be packed together only if all are .tar files.")
        return [str(place)]
    first, last = found[1], found[2]
    if not 0 <= int(last) - int(first) < _MAX_TARS:
        raise DataError(f"{place}: {shown(found[0])} is no range of numbers from the first to the last tar.")
    numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return [str(place.with_name(_RANGE.sub(number, place.name, count=1))) for number in numbers]


def _tars_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() == ".tar" and file.is_file())


WEBDATASET = Format(
    "WebDataset", "WebDataset .tar files", is_webdataset, read_webdataset, SHEET_OPTIONS, suggested=False
)
