"""Verbs that look closer at taggers: compare, explain, hard."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, Run, needs_train, read_table, write_json
from tagloom.errors import TagloomError
from tagloom.progress import show_progress
from tagloom.terminal import open_console, warn


def compare(
    run_a: Annotated[str, typer.Argument(help="The tagger to start from: a folder, or hf-hub:owner/name.")],
    run_b: Annotated[str, typer.Argument(help="The tagger that may be better.")],
    data: Data,
    gap: Annotated[
        list[str] | None,
        typer.Option(help="Two labels that should fare alike, as cow,horse: show how far apart they are. Repeatable."),
    ] = None,
    least: Annotated[float, typer.Option(help="Points that a label must move by to have gained or lost.", min=0)] = 0.0,
    pairs: Annotated[int, typer.Option(help="How many pairs that improved together to list.", min=0)] = 10,
    every: Annotated[bool, typer.Option("--all", help="Print all labels, not only those that changed most.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: a .png, .svg or .pdf file.")] = None,
    resamples: Annotated[
        int, typer.Option(help="Draws of images behind the 95 % intervals; 0 leaves them out.", min=0)
    ] = 1000,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Compare two taggers on a labelled table: which labels gained, which lost, together or at each other's cost."""
    from tagloom.evaluation.compare import compare_taggers, shared_classes
    from tagloom.evaluation.label_pairs import cross_label_gaps, read_pair
    from tagloom.predict.tagger import load
    from tagloom.report.comparison import comparison_to_dict, render_comparison
    from tagloom.report.comparison_chart import draw_comparison
    from tagloom.report.drawing import check_drawable

    if _same_place(run_a, run_b):
        raise TagloomError(f"{run_a} and {run_b} are the same tagger: name two different ones.")
    if plot:
        check_drawable(plot)  # before minutes of scoring
    console = open_console()
    first, second = load(run_a, device=device), load(run_b, device=device)
    wanted = [read_pair(text, shared_classes(first.classes, second.classes)) for text in gap or []]
    table = read_table(data, data_option)
    with show_progress(console, f"scoring ({first.engine}, {second.engine})") as progress:
        comparison = compare_taggers(
            first, second, table, ignore_other_labels=ignore_other_labels, resamples=resamples, progress=progress
        )
    gaps = cross_label_gaps(comparison, wanted)
    render_comparison(comparison, (run_a, run_b), console, gaps, least=least, pairs=pairs, every=every)
    for error in comparison.broken:
        warn(f"left out: {error}")
    measured = {found.labels for found in gaps}
    for one, two in wanted:
        if (one, two) not in measured:
            warn(f"no gap between {one} and {two}: one of them has no positive image in {data}.")
    if json_path:
        content = comparison_to_dict(comparison, gaps, least=least, pairs=pairs)
        write_json(json_path, {"first": run_a, "second": run_b, "data": data, **content})
    if plot:
        console.print(f"Drawn in {draw_comparison(comparison, short_names(run_a, run_b), plot, gaps)}", markup=False)


def explain(
    run: Run,
    data: Annotated[str, typer.Argument(help="Pictures to look at: a label table, one image, or a folder of images.")],
    experts: Annotated[
        bool, typer.Option("--experts", help="Which experts each label listens to (heads with hybrid sharing).")
    ] = False,
    limit: Annotated[int, typer.Option(help="At most so many pictures, spread evenly over the data.", min=1)] = 512,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: a .png, .svg or .pdf file.")] = None,
    layer: Annotated[int, typer.Option(help="The layer of experts to draw, from 1.", min=1)] = 1,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Look inside a tagger.

    --experts averages the gates of hybrid sharing over pictures: how much each label takes of every shared expert and
    of its own. The drawing has labels by experts on a logarithmic scale, and the average as its last row.
    """
    if not experts:
        raise TagloomError("say what to explain: tagloom explain --experts RUN DATA")
    with needs_train("looking inside a tagger"):
        from tagloom.explain.experts import expert_load
    from tagloom.predict.tagger import find_folder
    from tagloom.report.drawing import check_drawable
    from tagloom.report.experts import draw_experts, render_experts

    if plot:
        check_drawable(plot)
    console = open_console()
    pictures = _pictures(data, data_option)
    chosen = [pictures[place * len(pictures) // limit] for place in range(limit)] if len(pictures) > limit else pictures
    with show_progress(console, "looking at pictures") as progress:
        load = expert_load(find_folder(run), chosen, device=device, progress=progress)
    render_experts(load, console)
    for error in load.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, {"run": run, "data": data, **load.to_dict()})
    if plot:
        console.print(f"Drawn in {draw_experts(load, plot, layer=layer)}", markup=False)


def hard(
    run: Run,
    data: Data,
    count: Annotated[int, typer.Option(help="How many images to list and draw.", min=1, max=500)] = 20,
    every: Annotated[bool, typer.Option("--all", help="Print all classes, not only the hardest ten.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the images with their tags: a .png file.")] = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Find hard instances: the images, and the classes, whose true labels score lowest.

    Of a layover tagger it also shows α, how much of its intermediate stages it mixes in, for each image and as a mean
    over the true images of each class.
    """
    from tagloom.evaluation.hard import find_hard
    from tagloom.predict.tagger import find_folder, load
    from tagloom.report.hard import draw_hard, render_hard

    if plot and plot.suffix.lower() != ".png":
        raise TagloomError(f"{plot}: the images are drawn as a .png file; end the name in .png.")
    console = open_console()
    tagger = load(run, device=device)
    table = read_table(data, data_option)
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        report = find_hard(tagger, table, count=count, ignore_other_labels=ignore_other_labels, progress=progress)
    if tagger.spec.head == "layover":
        with needs_train("α of a layover tagger"):
            from tagloom.explain.layover import mixing_amounts
        with show_progress(console, "mixing amounts") as progress:
            found = mixing_amounts(find_folder(run), report.paths, device=device, progress=progress)
        if found is not None:
            report = report.with_alpha(found[1].sum(axis=1))
    render_hard(report, console, most_classes=None if every else 10)
    for error in report.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, {"run": run, "data": data, **report.to_dict()})
    if plot:
        console.print(f"Drawn in {draw_hard(report, plot)}", markup=False)


def _pictures(data: str, options: list[str] | None) -> list[Path]:
    """List the pictures of a table, of a folder, or the one picture that is named."""
    from tagloom.data.images import IMAGE_SUFFIXES
    from tagloom.predict.files import collect_images

    place = Path(data)
    if place.is_dir() or place.suffix.lower() in IMAGE_SUFFIXES:
        return collect_images([place])
    table = read_table(data, options)
    return [table.path(row) for row in range(len(table))]


def short_names(first: str, second: str) -> tuple[str, str]:
    """What two runs are called in a drawing: their folders' own names, or all that was given where those are alike.

    >>> short_names("runs/probe", "runs/decoder/"), short_names("a/tagger", "b/tagger")
    (('probe', 'decoder'), ('a/tagger', 'b/tagger'))
    """
    names = Path(first).name, Path(second).name
    return names if all(names) and names[0] != names[1] else (first, second)


def _same_place(first: str, second: str) -> bool:
    return first == second or (Path(first).is_dir() and Path(second).is_dir() and Path(first).samefile(second))
