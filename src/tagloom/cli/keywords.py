"""`tagloom keywords` and its verbs: write, remove, read."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tagloom.cli.arguments import Device, Precision, PromiseOn, Recall, name_left_out, promising
from tagloom.errors import TagloomError
from tagloom.progress import show_progress
from tagloom.terminal import note, open_console, print_line, warn
from tagloom.training.signals import Interrupted, StopRequest

if TYPE_CHECKING:
    from tagloom.predict.keywords import PhotoResult, Place

keywords = typer.Typer(
    name="keywords",
    help="Write tags into photos as keywords, take them out again, or read keywords as labels.\n\n"
    "Example: tagloom keywords write photos --dry-run",
    no_args_is_help=True,
)

PhotoPlaces = Annotated[list[Path], typer.Argument(metavar="PHOTOS...", help="Photos, and folders to search.")]
Embed = Annotated[
    bool,
    typer.Option("--embed", help="Change the photos themselves, through an installed exiftool, which keeps a backup."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would change.")]


@keywords.command()
def write(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] PHOTOS...",
            help="A tagger folder, tagloom:any or hf-hub:owner/name, or nothing for the ready tagger; then photos, "
            "and folders to search.",
            show_default=False,
        ),
    ],
    max_tags: Annotated[int, typer.Option(help="Write at most this many tags per photo, the best first.", min=1)] = 8,
    precision: Precision = None,
    recall: Recall = None,
    promise_on: PromiseOn = None,
    embed: Embed = False,
    dry_run: DryRun = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip photos that this tagger has already written with these options.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Tag photos and write the tags as keywords, where photo programs find them: into XMP sidecars.

    Example: tagloom keywords write runs/first ~/Photos --dry-run

    The sidecar of photo.jpg is photo.jpg.xmp, or photo.xmp where there is one. Your own keywords and everything else in
    a sidecar stay as they are. Writing again replaces what was written before; remove takes it out. A keyword of
    Tagloom's that you delete in a photo program is not written again.

    Stop at any time with Ctrl-C, and continue with --resume. Exits with 1 if no photo could be tagged.
    """
    from tagloom.predict.files import on_this_disk, split_arguments
    from tagloom.predict.keywords import Photos, write_keywords
    from tagloom.predict.tagger import load

    run, given = split_arguments(places)
    photos = Photos(on_this_disk(given))
    place = _place(embed, dry_run)
    tagger = load(run, device=device)
    if run is None:
        note("no tagger is named: tagging with the ready one, which comes with Tagloom")
    tagger = promising(tagger, promise_on, precision, recall)
    rule = tagger.rule(precision=precision, recall=recall)
    name_left_out(rule.left_out, tagger.spec.held_out, precision, recall)
    results = write_keywords(tagger, photos, max_tags=max_tags, rule=rule, place=place, resume=resume)
    _carry_out(results, photos.count(), "writing keywords", "Continue with the same command and --resume", dry_run)


@keywords.command()
def remove(photos: PhotoPlaces, embed: Embed = False, dry_run: DryRun = False) -> None:
    """Take out of photos what tagloom keywords write put there, and nothing else.

    Example: tagloom keywords remove ~/Photos --dry-run

    Keywords that you wrote or confirmed stay. A sidecar that Tagloom began, and in which nothing else is, is deleted.
    """
    from tagloom.predict.keywords import Photos, remove_keywords

    found = Photos(photos)
    results = remove_keywords(found, place=_place(embed, dry_run))
    _carry_out(results, found.count(), "removing keywords", "Continue with the same command", dry_run)


@keywords.command()
def read(
    photos: PhotoPlaces,
    out: Annotated[Path, typer.Option(help="Write the labels to this .csv or .jsonl file.")],
    absent: Annotated[
        str,
        typer.Option(help="What it means that a photo lacks a keyword: unknown, or negative if you tagged everything."),
    ] = "unknown",
    min_count: Annotated[int, typer.Option(help="Leave out keywords on fewer photos than this.", min=1)] = 5,
    include: Annotated[
        list[str] | None, typer.Option(help="Take only keywords like this: 'Animals*'. Repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out keywords like this: 'People*'. Repeatable.")
    ] = None,
) -> None:
    """Read the keywords of photos (XMP sidecars, XMP and IPTC inside) into a table of labels.

    Example: tagloom keywords read ~/Photos --out labels.csv --exclude 'People*'

    Keywords that Tagloom wrote and nobody confirmed are left out. With unknown pairs, a .csv has a column per keyword;
    a .jsonl stays small.
    """
    from tagloom.data.formats.photo_library import keyword_table
    from tagloom.data.writing import check_table_name, write_known_pairs
    from tagloom.predict.files import Naming, collect_images

    check_table_name(out)  # before a library is read
    found = collect_images(photos)
    console, naming = open_console(), Naming(out.parent)
    with show_progress(console, "reading keywords") as progress:
        table = keyword_table(
            out.parent,
            found,
            [naming.path(photo) for photo in found],
            source=", ".join(map(str, photos[:3])),
            progress=progress,
            absent=absent,
            min_count=min_count,
            include=include,
            exclude=exclude,
        )
    try:
        write_known_pairs(table, out)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be written ({error}). Name another --out.") from error
    for line in table.understood:
        note(line)
    print_line(console, f"{len(table):,} photos and {len(table.classes):,} keywords, in {out}")


def _place(embed: bool, dry_run: bool) -> "Place":
    from tagloom.data.exiftool import ExifTool
    from tagloom.predict.keywords import Place

    return Place(ExifTool() if embed else None, dry_run)


def _carry_out(results: Iterator["PhotoResult"], total: int, what: str, advice: str, dry_run: bool) -> None:
    """Work through photos, show what happens, and sum it up. Stop between two photos when somebody asks to."""
    console, outcomes = open_console(), Counter[str]()
    with StopRequest() as stop, show_progress(console, what) as progress:
        try:
            for done, result in enumerate(results, start=1):
                outcomes[result.outcome] += 1
                if result.error:
                    warn(f"left as it is: {result.error}")
                for line in result.diff:
                    print_line(console, line)
                progress(min(done, total), total)
                stop.leave_if_requested()
        except Interrupted:
            warn(f"stopped on request: {outcomes.total():,} of {total:,} photos are done. {advice}")
            raise
        except OSError as error:
            raise TagloomError(
                f"stopped: {error}. {outcomes.total():,} of {total:,} photos are done. {advice}"
            ) from error
    _sum_up(console, outcomes, dry_run)
    if outcomes["inside"]:
        note(f"{outcomes['inside']:,} photos hold keywords of Tagloom inside. Take them out with --embed")
    if outcomes["failed"] == total:
        raise typer.Exit(1)


def _sum_up(console: Console, outcomes: Counter[str], dry_run: bool) -> None:
    words = {
        "written": "would be written" if dry_run else "written",
        "removed": "would be cleaned" if dry_run else "cleaned",
        "unchanged": "unchanged",
        "skipped": "already done",
        "failed": "left as they are",
    }
    parts = [f"{outcomes[name]:,} {word}" for name, word in words.items() if outcomes[name]]
    print_line(console, f"Photos: {', '.join(parts) or 'nothing to do'}")
