"""`tagloom explain`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.cli.arguments import DataOptions, Device, JsonPath, Plot, Words, read_table, write_json
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.progress import show_progress
from tagloom.terminal import open_console, print_line, warn
from tagloom.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

    from tagloom.data.packed.images import ImageFile
    from tagloom.predict.explanation import Explanation
    from tagloom.predict.tagger import Tagger
    from tagloom.report.heat_sheet import Tile

MOST_TILES = 24
MOST_IMAGES = 512


def explain(
    arguments: Annotated[
        list[str],
        typer.Argument(help="A tagger (leave it out for the ready one), then an image. With --experts: RUN DATA."),
    ],
    label: Annotated[
        list[str] | None, typer.Option(help="Show where this label comes from. Repeatable (default: the tags found).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw here: a .png or .jpg file (default: IMAGE-heat.png).")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="attention, cam, eigen-cam or grad-cam++ (default: the one that fits the head)."),
    ] = None,
    stages: Annotated[
        str | None, typer.Option(help="Look at these stages of the backbone, for example 1,2,3,4. It needs torch.")
    ] = None,
    teachers: Annotated[
        bool, typer.Option("--teachers", help="Draw the student of a distillation and its teachers side by side.")
    ] = False,
    experts: Annotated[
        bool, typer.Option("--experts", help="Show which experts each label uses (heads with hybrid sharing).")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            help="--experts: look at no more than this many images, spread over the data (default: 512).", min=1
        ),
    ] = None,
    json_path: JsonPath = None,
    plot: Plot = None,
    layer: Annotated[
        int | None, typer.Option(help="--experts: draw this layer of experts, counted from 1 (default: 1).", min=1)
    ] = None,
    words: Words = None,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Show where in an image a label comes from, as heat over the image.

    Example: tagloom explain photo.jpg --label dog --out heat.png

    The default method fits the tagger's head and needs no torch: attention for heads with queries, cam for gap and
    layover. With --stages, a row shows what each stage sees. --teachers RUN IMAGE --label mouse draws the
    student and the teachers that know the label.

    --experts RUN DATA averages the gates of hybrid sharing over images: how much each label takes of every shared
    expert and of its own. --plot draws labels by experts on a logarithmic scale, with the average as its last row.
    """
    if experts:
        if label or out or method or stages or teachers:
            raise TagloomError(
                "--experts takes RUN and DATA, and none of --label, --out, --method, --stages, --teachers."
            )
        if len(arguments) != 2:
            raise TagloomError("name a tagger and images: tagloom explain --experts RUN DATA")
        most = MOST_IMAGES if limit is None else limit
        _explain_experts(arguments[0], arguments[1], most, json_path, plot, layer or 1, device, data_option)
        return
    if plot or json_path or data_option or limit is not None or layer is not None:
        raise TagloomError(
            "--plot, --json, --limit, --layer and --data-option belong to --experts. Heat maps are drawn with --out."
        )
    from tagloom.predict.files import on_this_disk, split_arguments
    from tagloom.predict.tagger import find_folder, load
    from tagloom.report.heat_sheet import check_sheet_name, draw_tiles, grid_of

    run, places = split_arguments(arguments)
    images = on_this_disk(places)
    if len(images) != 1 or images[0].is_dir():
        raise TagloomError("name one image: tagloom explain [RUN] photo.jpg --label dog")
    chosen = _stage_numbers(stages)
    target = out or Path(f"{images[0].stem}-heat.png")
    check_sheet_name(target)
    console = open_console()
    tagger = load(run, device=device, words=words)
    if teachers:
        if not label or run is None or chosen:
            raise TagloomError("name a run and a label: tagloom explain --teachers RUN photo.jpg --label mouse")
        rows = [_teacher_row(find_folder(run), tagger, images[0], name, method, device) for name in label]
    else:
        looked_at: list[int] | list[None] = chosen or [None]
        # What a stage sees is worth a look without tags too.
        named = label or ([tag.label for tag in tagger.predict(images[0], top_k=1)[0]] if chosen else None)
        found = [tagger.explain(images[0], named, method, stage=stage) for stage in looked_at]
        _print_tags(found[0], console)
        rows = _label_rows(found, chosen) if chosen else grid_of(_tiles(found[0]))
    print_line(console, f"Drawn in {draw_tiles(rows, target)}")


def _tiles(explanation: "Explanation") -> "list[Tile]":
    from tagloom.report.heat_sheet import label_tiles, picture_tile

    tiles = label_tiles(explanation)
    if len(tiles) > MOST_TILES:
        warn(f"{len(tiles)} labels: the first {MOST_TILES} are drawn. Name those you want with --label.")
    return [picture_tile(explanation, f"by {explanation.method}"), *tiles[:MOST_TILES]]


def _label_rows(found: "list[Explanation]", stages: list[int]) -> "list[list[Tile]]":
    """Make a row of stages per label; maps that do not depend on the label get a single row."""
    from tagloom.report.heat_sheet import label_tiles, picture_tile

    drawn = [label_tiles(explanation, "{label}") for explanation in found]
    labels = 1 if found[0].method == "eigen-cam" else min(len(drawn[0]), MOST_TILES)
    rows = []
    for number in range(labels):
        first = picture_tile(found[0], f"by {found[0].method}" if labels == 1 else found[0].labels[number])
        rows.append(
            [
                first,
                *(tiles[number]._replace(title=f"stage {stage}") for tiles, stage in zip(drawn, stages, strict=True)),
            ]
        )
    return rows


def _teacher_row(
    folder: Path, student: "Tagger", image: Path, label: str, method: str | None, device: str
) -> "list[Tile]":
    from tagloom.explain.teachers import teachers_of
    from tagloom.report.heat_sheet import label_tiles, picture_tile

    taggers = {"student": student, **teachers_of(folder, label, device=device)}
    found = {name: tagger.explain(image, [label], method) for name, tagger in taggers.items()}
    tiles = [
        label_tiles(explanation, f"{name.replace('{', '{{').replace('}', '}}')}  {{score:.2f}}")[0]
        for name, explanation in found.items()
    ]
    return [picture_tile(found["student"], label), *tiles]


def _stage_numbers(given: str | None) -> list[int]:
    """Read --stages."""
    if given is None:
        return []
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 1000 for part in parts):
        raise TagloomError(f"--stages {printable(given)}: write numbers from 1, for example --stages 1,2,3,4")
    return [int(part) for part in parts]


def _print_tags(explanation: "Explanation", console: "Console") -> None:
    for name, score in zip(explanation.labels, explanation.scores, strict=True):
        print_line(console, f"{printable(name)}  {score:.2f}")
    if not explanation.labels:
        warn("no label is above its threshold. Name one to see where it would come from: --label dog")


def _explain_experts(
    run: str,
    data: str,
    limit: int,
    json_path: Path | None,
    plot: Path | None,
    layer: int,
    device: str,
    data_option: list[str] | None,
) -> None:
    with needs_train("looking at experts"):
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


def _list_images(data: str, options: list[str] | None) -> "list[ImageFile]":
    """List the images of a table or a folder, or the one image that is named."""
    from tagloom.data.images import IMAGE_SUFFIXES
    from tagloom.predict.files import collect_images

    path = Path(data)
    if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES:
        return list(collect_images([path]))
    table = read_table(data, options)
    return [table.image(row) for row in range(len(table))]
