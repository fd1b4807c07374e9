"""The `tagloom` command: a file and a typed function per verb, named like the verb.

Most verbs make one call of `tagloom.api` and show its result. Torch and other slow imports happen inside the verbs, so
that `tagloom --help` is quick.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from tagloom import __version__
from tagloom.cli.processes import SHARED_VERBS, ManyProcesses
from tagloom.errors import TagloomError
from tagloom.terminal import note, warn
from tagloom.training.launched import ask_launcher_to_stop, is_launched, rank_launched, restarts
from tagloom.training.signals import STOPPED, Interrupted

# Every verb, by the heading under which `tagloom --help` lists it. A new verb has a file of its own and a name here:
# the name of the file and of the function in it (`import_`, since `import` is taken in Python).
VERBS: dict[str, tuple[str, ...]] = {
    "Use a tagger": ("predict", "tags", "keywords", "review", "serve", "evaluate", "export", "push", "import_"),
    "Train a tagger": ("check", "doubts", "plan", "pack", "train", "distill", "study", "recipes"),
    "Look closer": ("report", "compare", "hard", "explain", "partition", "heads", "cache"),
    "Try it out": ("demo", "scenes"),
}


def _flowing(verb: Callable[..., object]) -> str:
    """Give the help of a verb in lines as long as the terminal is wide, not as long as those of its source."""
    paragraphs = inspect.cleandoc(verb.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.splitlines()) for paragraph in paragraphs)


def find_verb(name: str) -> Any:
    """Import a verb: a function, or a `typer.Typer` with verbs of its own."""
    return getattr(import_module(f"tagloom.cli.{name}"), name)


def build_app(asked: Iterable[str] = ()) -> typer.Typer:
    """Build the command. If a verb is asked for, only that one is imported: all of them take as long as a tag."""
    app = typer.Typer(
        name="tagloom",
        help="Put every label on an image: check a table, train a tagger, evaluate it, predict with it.",
        epilog="Start with: tagloom demo",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        callback=_options,
    )
    by_name = {name.rstrip("_"): (name, heading) for heading, names in VERBS.items() for name in names}
    wanted = [name for name in asked if name in by_name][:1] or list(by_name)
    for shown in wanted:
        name, heading = by_name[shown]
        verb = find_verb(name)
        if isinstance(verb, typer.Typer):
            for command in verb.registered_commands:
                command.help = _flowing(command.callback) if command.callback is not None else None
            app.add_typer(verb, rich_help_panel=heading)
        else:
            app.command(shown, help=_flowing(verb), rich_help_panel=heading)(verb)
    return app


def __getattr__(name: str) -> Any:
    """Build `app`, the command with all verbs, on first use."""
    if name != "app":
        raise AttributeError(f"module 'tagloom.cli' has no attribute '{name}'")
    globals()["app"] = build_app()
    return globals()["app"]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tagloom {__version__}")
        raise typer.Exit


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
    _quieten_pillow()
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
        build_app(arguments[:1])(arguments)
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

    _quieten_pillow()
    if restarts() and not rank_launched():
        note(f"a process was lost: all start again where it was saved last (restart {restarts()})")
    code = _run_here(arguments)
    if code == LOST_CODE or code > STOPPED:
        raise SystemExit(code)
    return code


def _quieten_pillow() -> None:
    """Silence Pillow's warnings of each damaged tag: one hostile file can fill the terminal with 60,000 lines."""
    for category in (UserWarning, RuntimeWarning):  # damaged metadata; many pixels, of which we have a limit of our own
        warnings.filterwarnings("ignore", category=category, module=r"PIL\.")
