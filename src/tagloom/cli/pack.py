"""`tagloom pack`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import DataOptions, read_pairs
from tagloom.progress import show_progress
from tagloom.terminal import open_console, print_line, warn


def pack(
    data: Annotated[
        list[str],
        typer.Argument(
            help="A label table of any format: see tagloom check. Or WebDataset tars: several, a folder, or one "
            "pattern such as 'photos-{000..012}.tar'."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the shards to this folder. If some are there, go on after them.")],
    split: Annotated[
        str, typer.Option(help="Begin the names of the shards with this; several splits may share a folder.")
    ] = "train",
    shard_size: Annotated[int, typer.Option(help="End a shard when it has so many MiB of pictures.", min=1)] = 256,
    shuffle: Annotated[
        int | None,
        typer.Option(
            help="Shuffle the rows by this seed first. Do it if the table is sorted, as class folders are: training "
            "shuffles packed images only within windows of 128 MiB.",
            show_default=False,
        ),
    ] = None,
    data_option: DataOptions = None,
) -> None:
    """Pack a table and its images into Parquet shards, the form in which the Hugging Face hub stores image data sets.

    Example: tagloom pack photos/train.csv --out shards, and then tagloom train shards

    A few large files are quicker to copy and to read than a million small ones. Labels, unknown pairs and the label
    tree go in as well, so that every verb takes the folder like any other table: check, partition, train, predict,
    evaluate. They also take an address that fsspec knows, such as https://… or s3://bucket/shards (extra remote).

    Stop it at any time; the same command goes on where it stopped.
    """
    from tagloom.data import load_table
    from tagloom.data.formats.webdataset import read_webdataset
    from tagloom.data.packed.packing import pack as pack_table
    from tagloom.wording import counted, listed_lines

    console = open_console()
    options = read_pairs(data_option)
    table = load_table(data[0], **options) if len(data) == 1 else read_webdataset(data, **options)
    if shuffle is not None:
        table = table.shuffled(shuffle)
    with show_progress(console, "packing images") as progress:
        done = pack_table(table, out, split=split, shard_bytes=shard_size * 2**20, progress=progress)
    if done.unreadable:
        warn(
            f"{counted(len(done.unreadable), 'image')} cannot be read. Such a row has labels and no picture:\n"
            f"{listed_lines(done.unreadable, most=5)}"
        )
    before = f", {done.images - done.written:,} of them there already" if done.written < done.images else ""
    size = sum(path.stat().st_size for path in done.shards) / 2**20
    print_line(
        console,
        f"{counted(done.images, 'image')} in {counted(len(done.shards), 'shard')} of {out}, {size:,.0f} MiB{before}. "
        f"Try: tagloom check {out}",
    )
