"""`tagloom partition`."""

from typing import Annotated, Literal

import typer

from tagloom.cli.arguments import Data, DataOptions, JsonPath, Plot, read_table, write_json
from tagloom.terminal import open_console, print_line


def partition(
    data: Data,
    kind: Annotated[
        Literal["co", "dis"], typer.Option(help="co: labels that appear together; dis: labels that do not.")
    ] = "co",
    k: Annotated[int, typer.Option("--k", help="Number of parts.", min=1)] = 5,
    tau: Annotated[float, typer.Option(help="Smooth the label graph; larger values favour rare co-occurrences.")] = 3.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same parts.", min=0)] = 0,
    plot: Plot = None,
    json_path: JsonPath = None,
    data_option: DataOptions = None,
) -> None:
    """Split the labels of a table by co-occurrence, as tagloom distill does.

    Example: tagloom partition photos/train.csv --kind co --k 5

    Prints the labels of each part, and how near they are to each other and to the labels of other parts.
    """
    from tagloom.labels.graph import affinity
    from tagloom.labels.graph import partition as split_labels
    from tagloom.report.drawing import check_drawable
    from tagloom.report.partition import PartitionReport, draw_partition, render_partition

    if plot:
        check_drawable(plot)
    console = open_console()
    table = read_table(data, data_option)
    parts = split_labels(table.positive, k, kind, tau, seed)
    report = PartitionReport(kind, table.classes, parts, affinity(table.positive, kind, tau))
    render_partition(report, console)
    if json_path:
        write_json(json_path, {"data": data, "k": k, "tau": tau, "seed": seed, **report.to_dict()})
    if plot:
        print_line(console, f"Drawn in {draw_partition(report, plot)}")
