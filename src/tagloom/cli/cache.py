"""`tagloom cache` and its verb: clear."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.cache_contents import clear_cache, list_cache
from tagloom.cache_folder import EXTRACTORS, FEATURES, KINDS, WORDS, default_cache_folder
from tagloom.checks import check_choice
from tagloom.terminal import open_console, warn
from tagloom.wording import and_more, listed_lines

if TYPE_CHECKING:
    from tagloom.cache_contents import CacheEntry

cache = typer.Typer(
    name="cache",
    help="Show what the cache holds and how large it is, or clear it.\n\nExample: tagloom cache clear --keep-days 30",
    invoke_without_command=True,
)

Folder = Annotated[
    Path | None,
    typer.Option("--cache", help="Look at this folder (default: $TAGLOOM_CACHE, or tagloom in the user's cache)."),
]
DAY = 24 * 3600
SHOWN = 12
WHAT = {FEATURES: "features of images", EXTRACTORS: "exported backbones", WORDS: "word vectors"}


@cache.callback()
def show(context: typer.Context, cache_folder: Folder = None) -> None:
    """Show what the cache holds: features by backbone and size, exported backbones and word vectors."""
    if context.invoked_subcommand is not None:
        context.obj = cache_folder
        return
    from tagloom.report.table import as_text, make_table

    root = cache_folder or default_cache_folder()
    entries, now = list_cache(root), time.time()
    if not entries:
        _say(f"{root}: holds no cached files.")
        return
    table = make_table(f"Cache: {size_text(total(entries))}", "kind", "belongs to", ">size", ">last used")
    for kind in KINDS:
        chosen = [entry for entry in entries if entry.kind == kind]
        for entry in chosen[:SHOWN]:
            table.add_row(kind, as_text(entry.about), size_text(entry.bytes), age_text(now - entry.used))
        if rest := and_more(chosen, SHOWN).strip():
            table.add_row(kind, rest, size_text(total(chosen[SHOWN:])), "")
        if chosen:
            table.add_row(
                f"[bold]{kind}", f"[bold]all {WHAT[kind]}", f"[bold]{size_text(total(chosen))}", end_section=True
            )
    open_console().print(table)
    _say(f"It is in {root}. Remove what you no longer use with: tagloom cache clear --keep-days 30")


@cache.command()
def clear(
    context: typer.Context,
    cache_folder: Folder = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Clear only features (of images), extractors (exported backbones) or words. Repeatable."),
    ] = None,
    keep_days: Annotated[float, typer.Option(help="Keep what was used in the last N days.", min=0)] = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove cached files: all of them, one kind, or what was not used lately.

    Example: tagloom cache clear --kind features --keep-days 30 --dry-run

    Nothing is lost but time: runs compute again what they need. Runs that are using the cache go on. Files that are not
    Tagloom's stay where they are.
    """
    for name in kind or []:
        check_choice("kind of cache", name, KINDS)
    root, now = cache_folder or context.obj or default_cache_folder(), time.time()
    chosen = [
        entry
        for entry in list_cache(root)
        if entry.kind in (kind or KINDS) and (not keep_days or now - entry.used > keep_days * DAY)
    ]
    sizes = {name: total(entry for entry in chosen if entry.kind == name) for name in KINDS}
    parts = "".join(f"\n  {WHAT[name]}: {size_text(size)}" for name, size in sizes.items() if size)
    if dry_run:
        _say(f"{root}: {size_text(total(chosen))} would be removed.{parts}")
        return
    done = clear_cache(chosen)
    _say(f"{root}: {size_text(done.bytes)} removed.{parts}")
    if done.kept:
        warn(
            f"{len(done.kept)} files were left, because a run is writing them or the system protects them:\n"
            f"{listed_lines(done.kept)}"
        )


def _say(text: str) -> None:
    open_console().print(text, markup=False, soft_wrap=True)


def total(entries: Iterable["CacheEntry"]) -> int:
    """Add up the sizes of entries."""
    return sum(entry.bytes for entry in entries)


def size_text(size: float) -> str:
    """Write a number of bytes.

    >>> size_text(0), size_text(12_345), size_text(5_600_000_000)
    ('0 B', '12.3 kB', '5.6 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def age_text(seconds: float) -> str:
    """Write how long ago something was.

    >>> age_text(60), age_text(3 * 86_400)
    ('today', '3 days ago')
    """
    days = int(seconds // DAY)
    return "today" if days < 1 else f"{days} day{'s' if days > 1 else ''} ago"
