"""Parquet files that others wrote, as one sheet: pictures are not read, only their names."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from tagloom.data.packed.images import ImageStore, distinct_name
from tagloom.data.packed.label_columns import LabelFile
from tagloom.data.packed.text import cells_of, open_text
from tagloom.data.parsing.sheet import Cell, Sheet, UnreadCell
from tagloom.errors import DataError
from tagloom.wording import first_line, shown


def parquet_sheet(files: Sequence[LabelFile], store: ImageStore | None = None) -> Sheet:
    """Give the rows of Parquet files with the same columns. A class that is a number has the name the hub gives it.

    Args:
        files: The files.
        store: Holds their pictures, whose column then has the pictures' names; None if they hold none.
    """
    from pyarrow import types

    schema, pictures = files[0].schema, files[0].pictures
    header = list(schema.names)
    unread = {
        name: UnreadCell(shown(str(kind)).strip("'"))
        for name, kind in zip(header, schema.types, strict=True)
        if not _is_plain(types, kind)
    }
    plain = [name for name in header if name not in unread]
    path_column = None if pictures is None or not _has_path(types, schema.field(pictures).type) else f"{pictures}.path"
    names = _class_names(schema)

    def rows() -> Iterator[tuple[int, Sequence[Cell]]]:
        number = 0
        taken: set[str] = set()
        for file in files:
            try:
                wanted = [*plain, *([] if path_column is None else [path_column])]
                with open_text(file.place, wanted) as opened:
                    for batch in opened.batches(wanted):
                        columns: list[Any] = []
                        for name in header:
                            if name == pictures and store is not None:
                                columns.append(_picture_names(batch, name, path_column, number, store, taken))
                            elif name in unread:
                                columns.append(repeat(unread[name], len(batch)))
                            else:
                                cells = cells_of(batch.column(name))
                                columns.append(list(map(_named(names[name]), cells)) if name in names else cells)
                        for row in zip(*columns, strict=True):
                            number += 1
                            yield number, row
            except DataError:
                raise
            except Exception as error:
                raise DataError(
                    f"{file.place}, after row {number}: cannot be read ({first_line(error)}). Write it again."
                ) from error

    return Sheet(Path(files[0].place), header, rows, unit="row", on_disk=store is None)


def _picture_names(
    batch: Any, column: str, path_column: str | None, first: int, store: ImageStore, taken: set[str]
) -> list[str]:
    paths = [None] * len(batch) if path_column is None else cells_of(batch.column(column).field("path"))
    return [distinct_name(str(path or ""), first + index, store, taken) for index, path in enumerate(paths)]


def _named(classes: list[str]) -> Callable[[Cell], Cell]:
    """Give the function that turns numbers of classes into their names; -1 and null stand for no class."""

    def name(cell: Any) -> Any:
        if isinstance(cell, list):
            return [name(entry) for entry in cell if entry is not None and entry != -1]
        if cell is None or cell == -1:
            return None
        return classes[cell] if isinstance(cell, int) and 0 <= cell < len(classes) else cell

    return name


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Read the names of numbered classes from the metadata that `datasets` writes, by column, without trusting it."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        found = {}
        for column, feature in features.items():
            inner = feature
            while isinstance(inner, dict) and "feature" in inner:
                inner = inner["feature"]
            inner = inner[0] if isinstance(inner, list) and len(inner) == 1 else inner
            if isinstance(inner, dict) and inner.get("_type") == "ClassLabel":
                names = inner["names"]
                if isinstance(names, list) and all(isinstance(name, str) for name in names):
                    found[column] = names
        return found
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _has_path(types: Any, kind: Any) -> bool:
    return types.is_struct(kind) and any(
        field.name == "path" and (types.is_string(field.type) or types.is_large_string(field.type)) for field in kind
    )


def _is_plain(types: Any, kind: Any) -> bool:
    """Whether cells of an Arrow type are numbers, text or lists of them.

    Cells of other types are not read: they may be pictures, and a batch of those fills the memory, or times that Python
    cannot represent.
    """
    if types.is_dictionary(kind) or types.is_list(kind) or types.is_large_list(kind):
        return _is_plain(types, kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return bool(text or number or types.is_null(kind))
