"""Writing tags to a file, one image after another: .csv, .jsonl or .parquet."""

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from tagloom.errors import DataError, MissingExtraError
from tagloom.files import whole_file
from tagloom.scoring.tags import Tag

ROWS_AT_ONCE = 4096  # of a Parquet file, that are held in memory before they are written
Rows = Iterable[tuple[str, list[Tag]]]
"""The name of each image, and its tags."""


def check_tag_file(path: Path) -> None:
    """Refuse a file of tags that could not be written, before any work is done."""
    if path.suffix not in (".csv", ".jsonl", ".parquet"):
        raise DataError(f"{path}: tags are written as .csv, .jsonl or .parquet; use one of these suffixes.")
    if path.suffix == ".parquet":
        need_pyarrow("writing Parquet")
    check_no_folder(path)


def check_no_folder(path: Path) -> None:
    """Refuse the name of a folder where a file is to be written."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder. Name a file.")


def need_pyarrow(what: str) -> None:
    """Say which extra brings pyarrow, if it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(what, "parquet") from error


@contextmanager
def writing(path: Path, advice: str = "Name another --out.") -> Iterator[None]:
    """Make the folder of a file, and turn what the system says about it into a message."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). Name another --out.") from error
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). {advice}") from error


def write_rows(rows: Rows, path: Path) -> int:
    """Write tags to a file, whole or not at all, in memory that does not grow with their number.

    A CSV has the columns image, labels and scores; values are joined by `|`, as `load_table` reads them. A Parquet file
    has the same columns with lists in them. JSON lines have `image` and `tags`. `path_field` and `join_labels` say how
    odd names are written.

    Returns:
        The number of images written.
    """
    with whole_file(path) as partial:
        if path.suffix == ".parquet":
            return _write_parquet(rows, partial)
        write = _write_csv if path.suffix == ".csv" else _write_json_lines
        # No text file holds the surrogates that stand for bytes of a file name. As a JSON escape they are read back.
        with partial.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            return write(rows, file)


def _write_csv(rows: Rows, file: IO[str]) -> int:
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


def _write_json_lines(rows: Rows, file: IO[str]) -> int:
    count = 0
    for image, tags in rows:
        line = {"image": image, "tags": [{"label": tag.label, "score": round(tag.score, 4)} for tag in tags]}
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        count += 1
    return count


def _write_parquet(rows: Rows, path: Path) -> int:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    from tagloom.data.parsing.image_paths import path_field

    schema = pa.schema([("image", pa.string()), ("labels", pa.list_(pa.string())), ("scores", pa.list_(pa.float32()))])
    stream, count = iter(rows), 0
    with ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(stream, ROWS_AT_ONCE)):
            columns = {
                "image": [path_field(image) for image, _ in some],
                "labels": [[tag.label for tag in tags] for _, tags in some],
                "scores": [[round(tag.score, 4) for tag in tags] for _, tags in some],
            }
            writer.write_table(pa.table(columns, schema))
            count += len(some)
    return count
