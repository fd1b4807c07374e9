"""The `tagloom` command: a file and a typed function per verb, named like the verb.

Most verbs make one call of `tagloom.api` and show its result. Torch and other slow imports happen inside the verbs, so
that `tagloom --help` is quick.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from tagloom import __version__
from tagloom.cli.cache import cache
from tagloom.cli.check import check
from tagloom.cli.compare import compare
from tagloom.cli.demo import demo
from tagloom.cli.distill import distill
from tagloom.cli.doubts import doubts
from tagloom.cli.evaluate import evaluate
from tagloom.cli.explain import explain
from tagloom.cli.export import export
from tagloom.cli.hard import hard
from tagloom.cli.heads import heads
from tagloom.cli.import_ import import_
from tagloom.cli.keywords import keywords
from tagloom.cli.partition import partition
from tagloom.cli.predict import predict
from tagloom.cli.processes import SHARED_VERBS, ManyProcesses
from tagloom.cli.push import push
from tagloom.cli.recipes import recipes
from tagloom.cli.report import report
from tagloom.cli.review import review
from tagloom.cli.scenes import scenes
from tagloom.cli.serve import serve
from tagloom.cli.study import study
from tagloom.cli.tags import tags
from tagloom.cli.train import train
from tagloom.errors import TagloomError
from tagloom.terminal import note, warn
from tagloom.training.launched import ask_launcher_to_stop, is_launched, rank_launched, restarts
from tagloom.training.signals import STOPPED, Interrupted

# Every verb, by the heading under which `tagloom --help` lists it. A new verb has a file of its own and a name here.
VERBS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Use a tagger": (predict, tags, keywords, review, serve, evaluate, export, push, import_),
    "Train a tagger": (check, doubts, train, distill, study, recipes),
    "Look closer": (report, compare, hard, explain, partition, heads, cache),
    "Try it out": (demo, scenes),
}

app = typer.Typer(
    name="tagloom",
    help="Put every label on an image: check a table, train a tagger, evaluate it, predict with it.",
    epilog="Start with: tagloom demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for heading, verbs in VERBS.items():
    for verb in verbs:
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, rich_help_panel=heading)
        else:
            app.command(verb.__name__.rstrip("_"), rich_help_panel=heading)(verb)  # `import` is taken in Python


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tagloom {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if is_launched() and context.invoked_subcommand not in SHARED_VERBS:
        raise TagloomError(
            f"tagloom {context.invoked_subcommand} runs in one process; start it without torchrun. These share their "
            f"work among processes: {', '.join(SHARED_VERBS)}."
        )


def main() -> None:
    """Run the command."""
    # Pillow warns of each damaged tag of an image: one hostile file can fill the terminal with 60,000 lines.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command, here or in several processes, and give its exit code."""
    try:
        return _run_here(arguments)
    except ManyProcesses as wanted:
        processes = wanted.count
    from tagloom.training.launch import launch

    try:
        return launch(run_as_one, arguments, processes)
    except TagloomError as error:
        warn(f"error: {error}")
        return 2


def _run_here(arguments: list[str]) -> int:
    """Run the command in this process. Tagloom's own errors are printed without a traceback."""
    try:
        app(arguments)
    except TagloomError as error:
        code: int = getattr(error, "exit_code", 2)  # a run that was stopped on request has a code of its own: no error
        which = f"process {rank_launched()}: " if rank_launched() else ""
        warn(which + (str(error) if code != 2 else f"error: {error}"))
        if isinstance(error, Interrupted):
            ask_launcher_to_stop(code - STOPPED)
        return code
    except KeyboardInterrupt:
        warn("stopped.")
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has left, so there is nobody to tell
        return 1
    except SystemExit as ended:  # how typer ends, always
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def run_as_one(arguments: list[str]) -> int:
    """Run the command as one of several processes.

    It returns when it is done, or after an error that would come again. A process that was stopped, or that has lost
    another, ends at once.
    """
    from tagloom.training.ranks import LOST_CODE

    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    if restarts() and not rank_launched():
        note(f"a process was lost: all start again where it was saved last (restart {restarts()})")
    code = _run_here(arguments)
    if code == LOST_CODE or code > STOPPED:
        raise SystemExit(code)
    return code
