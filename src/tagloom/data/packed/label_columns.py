"""Reading the labels of packed data: names and labels only, no pictures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tagloom.data.label_tree import LabelTree
from tagloom.data.packed.columns import (
    IMAGE,
    LABELS,
    PackedAbout,
    PairColumn,
    check_label_bytes,
    read_about,
)
from tagloom.data.packed.images import ImageStore, distinct_name
from tagloom.data.packed.places import is_parquet_name
from tagloom.data.packed.shards import Shard
from tagloom.data.packed.text import TextFile, cells_of, open_text
from tagloom.data.parsing.image_paths import checked_path
from tagloom.data.table import LabelTable, Unlisted
from tagloom.errors import DataError, TagloomError
from tagloom.wording import first_line


class LabelFile(NamedTuple):
    """A Parquet file of a table: what its footer says."""

    place: str
    schema: Any
    """Arrow's."""
    pictures: str | None
    """The column with pictures; None if there is none."""
    shard: Shard

    @property
    def rows(self) -> int:
        """Count its rows."""
        return sum(self.shard.group_rows)


def read_label_columns(place: str, files: Sequence[LabelFile], store: ImageStore) -> LabelTable | None:
    """Read the table that `tagloom pack` wrote; None if these files have other columns, or only labels.

    A program that rewrites shards may leave out what they say of the order of classes and of the tree. Unknown pairs
    are in columns, and still count then.

    Args:
        place: What the user named, for messages.
        files: The files, in order.
        store: Holds their pictures.
    """
    about = _whole_about(place, files) or _about_columns(files)
    if about is None:
        return None
    positive = PairColumn(about.classes)
    exceptions = PairColumn(about.classes) if about.has_exceptions else None
    images: list[str] = []
    taken: set[str] = set()
    columns = [f"{IMAGE}.path", LABELS, *([about.exception_column] if exceptions and about.exception_column else [])]
    for file in files:
        _check_columns(file, columns[1:])
        with _opened(file, columns) as opened:
            for batch in opened.batches(columns):
                where = f"{file.place}, after row {len(images)}"
                for path in cells_of(batch.column(IMAGE).field("path")):
                    name = "" if not path else checked_path(path, where)
                    images.append(distinct_name(name, len(images), store, taken))
                positive.add(batch.column(LABELS), where)
                if exceptions is not None:
                    exceptions.add(batch.column(columns[-1]), where)
    LabelTree(about.classes, about.parents)  # refuses what is no tree
    return LabelTable(
        Path(place),
        images,
        about.classes,
        positive.to_matrix(),
        None if exceptions is None else exceptions.to_matrix(),
        unlisted=about.unlisted,
        task=about.task,
        source=place,
        classes_given=about.classes_given,
        negatives_stated=about.negatives_stated,
        parents=about.parents,
    )


@contextmanager
def _opened(file: LabelFile, columns: Sequence[str]) -> Iterator[TextFile]:
    """Open a file to read columns of names. Whatever goes wrong while it is open becomes one of our errors."""
    try:
        with open_text(file.place, columns) as opened:
            check_label_bytes(file.place, opened.file, columns)
            yield opened
    except TagloomError:
        raise
    except Exception as error:  # pyarrow raises many types on a damaged file
        raise DataError(f"{file.place}: its labels cannot be read ({first_line(error)}). Pack it again.") from error


def _whole_about(place: str, files: Sequence[LabelFile]) -> PackedAbout | None:
    """Read what all shards say, and check that they are the shards of one table, in order, none missing."""
    said = [read_about(file.place, file.schema.metadata) for file in files]
    if all(entry is None for entry in said):
        return None
    about: PackedAbout | None = None
    row = 0
    for file, entry in zip(files, said, strict=True):
        if entry is None or (about is not None and entry[0] != about):
            raise DataError(f"{place}: {file.place} is not of the same table as the other files. Remove it.")
        about, first = entry
        if len(files) == 1 and is_parquet_name(place.rpartition("/")[2]):
            return about  # somebody wants this shard alone
        if first != row:
            raise DataError(f"{place}: rows {row:,} to {first - 1:,} are missing before {file.place}. Pack them again.")
        row += file.rows
    assert about is not None  # noqa: S101, files is never empty
    if row != about.images:
        raise DataError(
            f"{place}: holds {row:,} of {about.images:,} images. Run the same tagloom pack again: it goes on from here."
        )
    return about


def _about_columns(files: Sequence[LabelFile]) -> PackedAbout | None:
    """Tell from the columns what they mean: nothing if there is no column `unknown` or `negative` next to `labels`."""
    fields = {field.name: field.type for field in files[0].schema}
    beside: dict[Unlisted, str] = {"negative": "unknown", "unknown": "negative"}
    found: list[Unlisted] = [unlisted for unlisted, name in beside.items() if _lists_names(fields.get(name))]
    if len(found) != 1 or not _lists_names(fields.get(LABELS)):
        return None
    columns = [LABELS, beside[found[0]]]
    names: set[str] = set()
    for file in files:
        with _opened(file, columns) as opened:
            for batch in opened.batches(columns):
                for name in columns:
                    names.update(batch.column(name).flatten().unique().to_pylist())
    classes = tuple(sorted(name for name in names if name is not None))
    return PackedAbout(classes, sum(file.rows for file in files), "", unlisted=found[0], has_exceptions=True)


def _lists_names(kind: Any) -> bool:
    """Whether an Arrow type is a list of strings."""
    from pyarrow import types

    if kind is None or not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    inner = kind.value_type
    return bool(types.is_string(inner) or types.is_large_string(inner))


def _check_columns(file: LabelFile, names: Sequence[str]) -> None:
    from pyarrow import types

    fields = {field.name: field.type for field in file.schema}
    image = fields.get(IMAGE)
    good = image is not None and types.is_struct(image) and any(field.name == "path" for field in image)
    if not good or not all(_lists_names(fields.get(name)) for name in names):
        raise DataError(f"{file.place}: lacks one of the columns image, {', '.join(names)}. Pack it again.")
