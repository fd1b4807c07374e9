"""`tagloom predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from tagloom.cli.arguments import (
    Device,
    MaxTags,
    Precision,
    PromiseOn,
    Recall,
    Threshold,
    TopK,
    Words,
    name_left_out,
    promising,
)
from tagloom.cli.processes import Processes, joined, share_work
from tagloom.errors import ImageError, TagloomError
from tagloom.progress import show_progress
from tagloom.terminal import note, open_console, print_line, warn
from tagloom.training.launched import is_launched, restarts
from tagloom.training.signals import Interrupted, StopRequest
from tagloom.wording import printable

if TYPE_CHECKING:
    from tagloom.predict.files import Job
    from tagloom.predict.ray_parts import TaggerSource
    from tagloom.scoring.tags import Tag
    from tagloom.training.ranks import World


def predict(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] IMAGES...",
            help="A tagger folder, tagloom:any or hf-hub:owner/name, or nothing for the ready tagger; then image "
            "files, folders to search, patterns such as 'shards/*.tar', .txt lists of paths, .zip and .tar archives, "
            "and .parquet files with the pictures' bytes.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the tags to this .csv, .jsonl or .parquet file.")] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Write all scores to this .parquet file, to make tags from them later: tagloom tags."),
    ] = None,
    threshold: Threshold = None,
    top_k: TopK = None,
    max_tags: MaxTags = None,
    precision: Precision = None,
    recall: Recall = None,
    promise_on: PromiseOn = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Choose among these labels, trained or not: 'surfboard, wedding', or a .txt, one per line."),
    ] = None,
    words: Words = None,
    shard: Annotated[
        str | None, typer.Option(help="Tag only one part of the images, for example 3/8 on the third of 8 machines.")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            help="Tag here, or with --out or --scores on a Ray cluster: that of RAY_ADDRESS, or one on this machine."
        ),
    ] = "local",
    parts: Annotated[
        int, typer.Option(min=1, help="With --engine ray: share the images out into so many tasks, one core each.")
    ] = 8,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue a prediction with --out or --scores that was stopped. Repeat its options."
        ),
    ] = False,
    processes: Processes = 1,
    device: Device = "auto",
) -> None:
    """Tag images. Without a tagger, the ready one is used, which comes with Tagloom; with --labels, tagloom:any.

    Example: tagloom predict runs/first photos --out tags.csv

    An unreadable image is reported and skipped. Exits with 1 if no image could be read.

    With --out or --scores you can stop at any time with Ctrl-C and continue with --resume: the files are the same.
    They are also the same with --processes, or under torchrun, where each process tags its share of the images.

    With --engine ray, many machines tag parts of the images, and lost ones are replaced: again the files are the same.
    """
    from tagloom.predict.files import Job, read_labels, split_arguments
    from tagloom.predict.inputs import read_shard
    from tagloom.predict.tagger import load
    from tagloom.ready import ANY_WORD

    to_files = out is not None or scores is not None
    if resume and not to_files:
        raise TagloomError("--resume continues a prediction that writes a file. Name that file with --out or --scores.")
    if (processes > 1 or is_launched()) and (not to_files or engine == "ray"):
        raise TagloomError(
            "several processes write their tags to one file. Name it with --out or --scores, and leave --engine ray "
            "out, which starts processes itself."
        )
    if engine == "ray" and (not to_files or shard is not None or promise_on is not None):
        raise TagloomError(
            "--engine ray writes whole files: name them with --out or --scores, without --shard, and "
            "promise on a table with another command (--promise-on)."
        )
    run, images = split_arguments(places)
    part = None if shard is None else read_shard(shard)
    share_work(processes)
    with joined(device) as world:
        if run is None:  # a folder that was meant as a tagger would otherwise silently be searched for images
            run = None if labels is None else ANY_WORD
            which = "tagging with the ready one" if labels is None else "scoring these labels with the any-word tagger"
            note(f"no tagger is named: {which}, which comes with Tagloom")
        tagger = load(run, device=world.device_name(device) if world else device, words=words)
        tagger = promising(tagger, promise_on, precision, recall)
        if labels is not None:
            tagger = tagger.with_labels(read_labels(labels))
        rule = tagger.rule(threshold, top_k, max_tags, precision, recall)
        name_left_out(rule.left_out, tagger.spec.held_out, precision, recall)
        job = Job(tagger, images, out, scores, rule, part)
        console = open_console()
        if engine == "ray":
            names = None if labels is None else tuple(read_labels(labels))
            tagged = _on_ray(job, _source(run, device, words, names), parts, console, resume)
        elif to_files:
            tagged = _to_files(job, console, resume or restarts() > 0, world)
        else:
            tagged = _to_terminal(job, console)
    if not tagged:
        raise typer.Exit(1)


def _to_terminal(job: "Job", console: Console) -> int:
    """Print the tags of each image, and give the number of images that were tagged."""
    tagged = 0
    for image, found in job.tags():
        if isinstance(found, ImageError):
            warn(str(found))
        else:
            tagged += 1
            console.print(tags_line(str(image), found.tags, found.best), soft_wrap=True)
    return tagged


def _to_files(job: "Job", console: Console, resume: bool, world: "World | None") -> int:
    """Write the files, and give the number of images that were tagged. Stop when somebody asks to."""
    from tagloom.predict.together import run_together, share_of

    target = " and ".join(str(path) for path in (job.out, job.scores) if path)
    total, done = (share_of(job, world) if world else job).count(), -1
    is_first = world is None or world.is_first
    with StopRequest() as stop, show_progress(console if is_first else None, "tagging") as progress:

        def after_image(count: int) -> None:
            nonlocal done
            if resume and done < 0 and count == 0:
                note(f"{target}: nothing to continue here, so this starts with the first image")
            done = count
            progress(count, total)
            stop.leave_if_requested()

        try:
            if world is None:
                found = job.run(resume=resume, on_error=lambda error: warn(str(error)), on_image=after_image)
            else:
                tell = warn if is_first else lambda error: None
                found = run_together(job, world, stop, resume=resume, on_error=tell, on_image=after_image)
        except Interrupted:
            how = f"{done:,} of {total:,} images are done. Continue with the same command and --resume"
            warn(f"stopped on request: {how if done > 0 else 'no image is done yet'}")
            raise
    if is_first:
        print_line(console, f"{found.tagged} of {found.tagged + found.failed} images tagged, in {target}")
    return found.tagged


def _on_ray(job: "Job", source: "TaggerSource", parts: int, console: Console, resume: bool) -> int:
    """Write the files with what Ray tasks tag, and give the number of images that were tagged."""
    from tagloom.predict.ray_parts import run_on_ray

    with StopRequest() as stop, show_progress(console, "parts tagged") as progress:
        try:
            found = run_on_ray(
                job,
                source,
                parts,
                resume=resume,
                stop=stop,
                interrupted=Interrupted,
                on_error=warn,
                on_part=lambda done: progress(done, parts),
            )
        except Interrupted:
            warn("stopped on request: what is done is kept. Continue with the same command and --resume")
            raise
    target = " and ".join(str(path) for path in (job.out, job.scores) if path)
    print_line(console, f"{found.tagged} of {found.tagged + found.failed} images tagged, in {target}")
    return found.tagged


def _source(run: str | None, device: str, words: str | None, labels: tuple[str, ...] | None) -> "TaggerSource":
    """Name the tagger and its words by whole paths: a worker runs in another folder."""
    from tagloom.predict.ray_parts import TaggerSource
    from tagloom.words.sources import resolved_source

    folder = str(Path(run).absolute()) if run is not None and Path(run).is_dir() else run
    return TaggerSource(folder, device, None if words is None else resolved_source(words), labels)


def tags_line(image: str, tags: "list[Tag]", best: "Tag | None" = None) -> Text:
    """Show an image and its tags on one line; without tags, the best label if it is given."""
    parts: list[tuple[str, str]] = [(printable(image), "")]
    for tag in tags:
        parts += [("  ", ""), (printable(tag.label), "bold"), (f" {tag.score:.2f}", "dim")]
    nearest = f"; the best is {printable(best.label)} {best.score:.2f}" if best else ""
    return Text.assemble(*parts, *([] if tags else [(f"  no label above its threshold{nearest}", "dim")]))
