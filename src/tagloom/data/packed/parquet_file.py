"""Opening Parquet files of strangers, and finding the pictures in them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tagloom.data.packed.footer import check_levels, read_footer
from tagloom.data.packed.places import open_shard
from tagloom.errors import DataError, MissingExtraError
from tagloom.wording import first_line, listed, shown


@contextmanager
def open_parquet(place: str, what: str = "Reading Parquet", **options: Any) -> Iterator[Any]:
    """Open a Parquet file of this disk or an address.

    Args:
        place: Its path or address.
        what: What needs it, for the message if pyarrow is missing.
        **options: For pyarrow's `ParquetFile`.

    Raises:
        DataError: If it is not one.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(what, "parquet") from error
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(open_shard(place))
            footer = read_footer(stream)
            stream.seek(0)
            file = stack.enter_context(parquet.ParquetFile(stream, **options))
            columns = [file.schema.column(index) for index in range(file.metadata.num_columns)]
            check_levels(place, footer, [(leaf.max_repetition_level, leaf.max_definition_level) for leaf in columns])
        except FileNotFoundError as error:
            raise DataError(f"{place}: no such file.") from error
        except DataError:
            raise
        except Exception as error:  # pyarrow raises many types on a damaged file, from OSError to UnicodeDecodeError
            raise DataError(
                f"{place}: cannot be opened as a Parquet file ({first_line(error)}). It is not a Parquet file, or "
                "damaged: make it again."
            ) from error
        yield file


def picture_columns(schema: Any) -> list[str]:
    """List the columns that hold bytes, or a struct with bytes, of an Arrow schema."""
    return [field.name for field in schema if _holds_bytes(field.type)]


def picture_column(place: str, schema: Any) -> str:
    """Find the column with pictures: `image`, or the only one that holds bytes or a struct with bytes."""
    found = picture_columns(schema)
    if "image" in found or len(found) == 1:
        return "image" if "image" in found else found[0]
    raise DataError(
        f"{place}: has {len(found)} columns with pictures' bytes ({listed(map(shown, found)) or 'none'}). It needs "
        "one, or one with the name image: bytes, or a struct of bytes and path."
    )


def _holds_bytes(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    if types.is_struct(kind):
        return any(field.name == "bytes" and _holds_bytes(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))
