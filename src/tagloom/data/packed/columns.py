"""The columns of packed data: pictures as the Hugging Face hub stores them, and labels that any program can read.

| column     | type                    | holds                                                                      |
| ---------- | ----------------------- | -------------------------------------------------------------------------- |
| `image`    | struct of bytes, path   | the bytes of the image file, and its name                                  |
| `labels`   | list of strings         | the positive classes                                                       |
| `unknown`  | list of strings         | the unknown ones; all others are negative. Only if some pairs are unknown  |
| `negative` | list of strings         | the negative ones; all others are unknown. Instead of `unknown`            |

What columns cannot say, the order of classes and the label tree, is JSON under the key `tagloom` in the metadata of
each file, next to the key `huggingface` by which `datasets` recognises pictures.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable, Pairs, Task, Unlisted
from tagloom.errors import DataError
from tagloom.wording import first_line, shown

IMAGE, LABELS = "image", "labels"
KEY = b"tagloom"
FORMAT = 1
MAX_LABEL_BYTES = 512 * 2**20
"""Of names and labels in one row group of a file. They are stored once each, and numbered."""


@dataclass(frozen=True)
class PackedAbout:
    """What every shard says about the whole table: all that its columns cannot."""

    classes: tuple[str, ...]
    images: int
    """How many rows all shards have together."""
    fingerprint: str
    """Of the table that was packed: shards of different tables do not mix."""
    parents: Mapping[str, str] = field(default_factory=dict)
    unlisted: Unlisted = "negative"
    has_exceptions: bool = False
    task: Task = "multi"
    classes_given: bool = False
    negatives_stated: bool = False

    @classmethod
    def of(cls, table: LabelTable) -> "PackedAbout":
        """Describe a table."""
        return cls(
            classes=table.classes,
            images=len(table),
            fingerprint=table.fingerprint(),
            parents=dict(table.parents),
            unlisted=table.unlisted,
            has_exceptions=table.exceptions is not None,
            task=table.task,
            classes_given=table.classes_given,
            negatives_stated=table.negatives_stated,
        )

    @property
    def exception_column(self) -> str | None:
        """The column that lists pairs of the other kind than those that are not listed; None where there is none."""
        if self.unlisted == "unknown":
            return "negative"
        return "unknown" if self.has_exceptions else None

    def metadata(self, first: int) -> dict[bytes, bytes]:
        """Give the metadata of a shard whose first row is row `first` of the table."""
        own = {**self.__dict__, "classes": list(self.classes), "first": first, "format": FORMAT}
        names: dict[str, Any] = {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"}
        features: dict[str, Any] = {IMAGE: {"_type": "Image"}, LABELS: names}
        if self.exception_column is not None:
            features[self.exception_column] = names
        hub = {"info": {"features": features}}
        return {KEY: json.dumps(own, ensure_ascii=False).encode(), b"huggingface": json.dumps(hub).encode()}


def read_about(place: str, metadata: Mapping[bytes, bytes] | None) -> tuple[PackedAbout, int] | None:
    """Read what a shard says about its table, and which row is its first; None for files that others wrote."""
    text = (metadata or {}).get(KEY)
    if text is None:
        return None
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise DataError(f"{place}: packed in format {shown(content['format'])}, and this version reads {FORMAT}.")
        about = PackedAbout(
            classes=_names(content["classes"]),
            images=_number(content["images"]),
            fingerprint=str(content["fingerprint"]),
            parents={_text(child): _text(parent) for child, parent in content["parents"].items()},
            unlisted=_one_of(content["unlisted"], "negative", "unknown"),  # type: ignore[arg-type]
            has_exceptions=bool(content["has_exceptions"]),
            task=_one_of(content["task"], "multi", "single"),  # type: ignore[arg-type]
            classes_given=bool(content["classes_given"]),
            negatives_stated=bool(content["negatives_stated"]),
        )
        return about, _number(content["first"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{place}: what it says about its labels cannot be read ({first_line(error)}).") from error


def schema_of(about: PackedAbout, first: int) -> Any:
    """Make the Arrow schema of a shard."""
    import pyarrow as pa

    names = pa.list_(pa.string())
    fields = [(IMAGE, pa.struct([("bytes", pa.binary()), ("path", pa.string())])), (LABELS, names)]
    if about.exception_column is not None:
        fields.append((about.exception_column, names))
    return pa.schema(fields, metadata=about.metadata(first))


def names_of(classes: Sequence[str], pairs: "Pairs | None", row: int) -> list[str]:
    """List the classes of a row of a matrix."""
    if pairs is None:
        return []
    return [classes[column] for column in pairs.indices[pairs.indptr[row] : pairs.indptr[row + 1]].tolist()]


class PairColumn:
    """One column of labels, read batch by batch into a sparse matrix."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._column_of = {name: column for column, name in enumerate(classes)}
        self._width = len(classes)
        self._columns = array("i")
        self._counts: list[NDArray[np.int64]] = []

    def add(self, cells: Any, where: str) -> None:
        """Add an Arrow array: lists of numbered strings."""
        values, lengths = cells.flatten(), cells.value_lengths().fill_null(0)
        if values.null_count:
            raise DataError(f"{where}: a label is null. Leave it out.")
        if not hasattr(values, "dictionary"):  # some encodings are not read as numbers
            values = values.dictionary_encode()
        numbers = values.indices.to_numpy(zero_copy_only=False)
        used = np.unique(numbers)
        renumbered = np.zeros(len(values.dictionary), np.int32)
        for number in used.tolist():
            name = values.dictionary[number].as_py()
            column = self._column_of.get(name)
            if column is None:
                raise DataError(f"{where}: label {shown(name)} is not one of its {self._width} classes.")
            renumbered[number] = column
        self._columns.frombytes(renumbered[numbers].tobytes())
        self._counts.append(lengths.to_numpy(zero_copy_only=False).astype(np.int64))

    def to_matrix(self) -> Pairs:
        """Give the pairs, bool (rows, classes)."""
        counts = np.concatenate(self._counts) if self._counts else np.empty(0, np.int64)
        ends = np.concatenate([[0], np.cumsum(counts)])
        columns = np.frombuffer(self._columns, np.int32) if self._columns else np.empty(0, np.int32)
        ends = ends.astype(np.int32) if len(columns) < 2**31 else ends
        matrix = csr_array((np.ones(len(columns), np.bool_), columns.copy(), ends), shape=(len(counts), self._width))
        matrix.sum_duplicates()
        return matrix


def check_label_bytes(place: str, file: Any, columns: Iterable[str]) -> None:
    """Refuse a file whose names and labels claim to take more memory than any table needs."""
    wanted = tuple(columns)
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        leaves = (group.column(number) for number in range(group.num_columns))
        size = sum(int(leaf.total_uncompressed_size) for leaf in leaves if leaf.path_in_schema.startswith(wanted))
        if size > MAX_LABEL_BYTES or size < 0:
            raise DataError(f"{place}: row group {index} claims {size:,} bytes of labels, which no table has.")


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{shown(value)} is not a list of names")
    return tuple(map(_text, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a name")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{shown(value)} is not a number of rows")
    return value


def _one_of(value: Any, *choices: str) -> str:
    if value not in choices:
        raise ValueError(f"{shown(value)} is none of {', '.join(choices)}")
    return str(value)
