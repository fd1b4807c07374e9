"""`tagloom explain`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import DataOptions, Device, JsonPath, Plot, Run, read_table, write_json
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.progress import show_progress
from tagloom.terminal import open_console, print_line, warn


def explain(
    run: Run,
    data: Annotated[str, typer.Argument(help="The images to look at: a label table, one image, or a folder.")],
    experts: Annotated[
        bool, typer.Option("--experts", help="Show which experts each label uses (heads with hybrid sharing).")
    ] = False,
    limit: Annotated[
        int, typer.Option(help="Look at no more than this many images, spread evenly over the data.", min=1)
    ] = 512,
    json_path: JsonPath = None,
    plot: Plot = None,
    layer: Annotated[int, typer.Option(help="Draw this layer of experts, counted from 1.", min=1)] = 1,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Look inside a tagger.

    Example: tagloom explain --experts runs/first photos/val.csv --plot experts.png

    --experts averages the gates of hybrid sharing over images: how much each label takes of every shared expert and of
    its own. The drawing shows labels by experts on a logarithmic scale, with the average as its last row.
    """
    if not experts:
        raise TagloomError("choose what to explain: tagloom explain --experts RUN DATA")
    with needs_train("looking inside a tagger"):
        from tagloom.explain.experts import expert_load
    from tagloom.predict.tagger import find_folder
    from tagloom.report.drawing import check_drawable
    from tagloom.report.experts import draw_experts, render_experts

    if plot:
        check_drawable(plot)
    console = open_console()
    images = _list_images(data, data_option)
    if len(images) > limit:
        images = [images[index * len(images) // limit] for index in range(limit)]
    with show_progress(console, "looking at images") as progress:
        load = expert_load(find_folder(run), images, device=device, progress=progress)
    render_experts(load, console)
    for error in load.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, {"run": run, "data": data, **load.to_dict()})
    if plot:
        print_line(console, f"Drawn in {draw_experts(load, plot, layer=layer)}")


def _list_images(data: str, options: list[str] | None) -> list[Path]:
    """List the images of a table or a folder, or the one image that is named."""
    from tagloom.data.images import IMAGE_SUFFIXES
    from tagloom.predict.files import collect_images

    path = Path(data)
    if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES:
        return collect_images([path])
    table = read_table(data, options)
    return [table.path(row) for row in range(len(table))]
