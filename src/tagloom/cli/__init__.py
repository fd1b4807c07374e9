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
from tagloom.cli.plan import plan
from tagloom.cli.predict import predict
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
from tagloom.terminal import warn

# Every verb, by the heading under which `tagloom --help` lists it. A new verb has a file of its own and a name here.
VERBS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Use a tagger": (predict, tags, keywords, review, serve, evaluate, export, push, import_),
    "Train a tagger": (check, doubts, plan, train, distill, study, recipes),
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
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command. Tagloom's own errors are printed without a traceback."""
    # Pillow warns of each damaged tag of an image: one hostile file can fill the terminal with 60,000 lines.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    try:
        app()
    except TagloomError as error:
        code = getattr(error, "exit_code", 2)  # a run that was stopped on request has a code of its own: no error
        warn(str(error) if code != 2 else f"error: {error}")
        raise SystemExit(code) from None
    except KeyboardInterrupt:
        warn("stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has left, so there is nobody to tell
        raise SystemExit(1) from None
