"""All scores of many images in one Parquet file, from which tags can be made again without looking at a picture.

A row per image: its name, and its scores in float16, which keeps three digits. The classes, the thresholds and the task
of the tagger stand in the file's metadata, so the file is enough.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data.regular_file import open_regular
from tagloom.errors import DataError, MissingExtraError
from tagloom.files import whole_file
from tagloom.predict.tag_files import ROWS_AT_ONCE
from tagloom.recipe.filling import fill
from tagloom.recipe.names import Task
from tagloom.scoring.promise import HeldOutCounts
from tagloom.tagger.spec import TaggerSpec
from tagloom.wording import first_line

KEY = b"tagloom"
FORMAT = 1
MAX_CLASSES = 2**20
VALUES_AT_ONCE = 2**20  # in memory before they are written, or while they are read


class Scores(NamedTuple):
    """The name of an image, and its scores (N,)."""

    image: str
    row: NDArray[np.float16]


@dataclass(frozen=True)
class ScoreFile:
    """What a file of scores says about the tagger that made it.

    Attributes:
        path: The file.
        classes: Label names, in the order of the scores.
        thresholds: The tagger's own thresholds (N,).
        task: "multi" or "single".
        images: How many images it holds.
        held_out: What the tagger can promise from; None if it carries nothing.
    """

    path: Path
    classes: tuple[str, ...]
    thresholds: NDArray[np.float32]
    task: Task
    images: int
    held_out: HeldOutCounts | None = None

    def __iter__(self) -> Iterator[Scores]:
        """Read image after image."""
        from pyarrow.parquet import ParquetFile

        from tagloom.data.packed.text import cells_of
        from tagloom.data.parsing.image_paths import checked_path

        try:
            with (
                open_regular(self.path) as stream,
                # A name that many rows share is read once: together they could be any amount of memory.
                ParquetFile(stream, buffer_size=2**20, read_dictionary=["image"]) as file,
            ):
                for batch in file.iter_batches(_rows_at_once(len(self.classes))):
                    scores = batch.column("scores").flatten().to_numpy(zero_copy_only=False)
                    rows = scores.astype(np.float16, copy=False).reshape(len(batch), len(self.classes))
                    if not np.isfinite(rows).all():
                        raise ValueError("a score is not a finite number")
                    for image, row in zip(cells_of(batch.column("image")), rows, strict=True):
                        yield Scores(checked_path(image, str(self.path)), row)
        except DataError:
            raise
        except Exception as error:  # pyarrow raises many types on a damaged file
            raise DataError(f"{self.path}: cannot be read ({first_line(error)}). Make it again.") from error


def write_scores(rows: Iterable[Scores], spec: TaggerSpec, path: Path) -> int:
    """Write the scores of images to a Parquet file, whole or not at all, and give their number."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    from tagloom.data.parsing.image_paths import path_field

    about = {
        "format": FORMAT,
        "classes": spec.classes,
        "thresholds": spec.threshold_row().tolist(),
        "task": spec.task,
        "held_out": None if spec.held_out is None else asdict(spec.held_out),
        "tagloom": spec.version,
    }
    scores = pa.list_(pa.float16(), len(spec.classes))
    schema = pa.schema([("image", pa.string()), ("scores", scores)], {KEY: json.dumps(about).encode()})
    stream, count = iter(rows), 0
    with whole_file(path) as partial, ParquetWriter(partial, schema, compression="zstd") as writer:
        while some := list(islice(stream, _rows_at_once(len(spec.classes)))):
            values = pa.array(np.concatenate([row for _, row in some]), pa.float16())
            images = pa.array([path_field(image) for image, _ in some], pa.string())
            lists = pa.FixedSizeListArray.from_arrays(values, len(spec.classes))
            writer.write_table(pa.Table.from_arrays([images, lists], schema=schema))
            count += len(some)
    return count


def open_scores(path: Path) -> ScoreFile:
    """Open a file of scores, trusting nothing in it."""
    try:
        from pyarrow import types
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtraError("Reading scores", "parquet") from error
    try:
        with open_regular(path) as stream, ParquetFile(stream) as file:
            schema, images = file.schema_arrow, file.metadata.num_rows
        about = json.loads((schema.metadata or {})[KEY])
        kind = schema.field("scores").type
        classes, limits = about["classes"], np.asarray(about["thresholds"], np.float32)
        task, counts = about["task"], about.get("held_out")
        held_out = None if counts is None else fill(HeldOutCounts, counts, "held_out")
        right = (
            about["format"] == FORMAT
            and types.is_fixed_size_list(kind)
            and types.is_float16(kind.value_type)
            and types.is_string(schema.field("image").type)
            and isinstance(classes, list)
            and all(isinstance(name, str) for name in classes)
            and 0 < len(classes) == len(set(classes)) == kind.list_size <= MAX_CLASSES
            and limits.shape == (len(classes),)
            and bool(np.all((limits >= 0) & (limits <= 1)))
            and task in ("multi", "single")
            and (held_out is None or len(held_out.classes) == len(classes))
        )
    except Exception as error:  # KeyError, TypeError, ArrowInvalid, RecursionError, …
        raise _no_scores(path, first_line(error)) from error
    if not right:
        raise _no_scores(path, f"of format {FORMAT}")
    return ScoreFile(path, tuple(classes), limits, task, images, held_out)


def _rows_at_once(classes: int) -> int:
    return max(1, min(ROWS_AT_ONCE, VALUES_AT_ONCE // classes))


def _no_scores(path: Path, why: Any) -> DataError:
    return DataError(
        f"{path}: holds no scores of Tagloom ({why}). Make such a file with: tagloom predict … --scores {path.name}"
    )
