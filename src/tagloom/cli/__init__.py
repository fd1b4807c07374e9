"""The `tagloom` command: one typed function per verb, in a file per kind of work.

Torch and other slow imports happen inside the verbs, so that `tagloom --help` is quick.
"""

import sys
from typing import Annotated

import typer

from tagloom import __version__
from tagloom.cli.data import check, scenes
from tagloom.cli.distill import distill, partition
from tagloom.cli.look import compare, explain, hard
from tagloom.cli.recipes import recipes_app
from tagloom.cli.tag import evaluate, export, predict
from tagloom.cli.train import demo, heads, train
from tagloom.errors import TagloomError
from tagloom.terminal import warn

app = typer.Typer(
    name="tagloom",
    help="Put every label on an image: check a table, train a tagger, evaluate it, predict with it.",
    epilog="Start with: tagloom demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for verb in (check, train, evaluate, predict, export, compare, explain, hard, partition, distill, scenes, demo, heads):
    app.command()(verb)
app.add_typer(recipes_app, name="recipes")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tagloom {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; errors of ours are printed without a traceback."""
    try:
        app()
    except TagloomError as error:
        code = getattr(error, "exit_code", 2)  # a run that was stopped has a code of its own, and is no error
        warn(str(error) if code != 2 else f"error: {error}")
        raise SystemExit(code) from None
    except KeyboardInterrupt:
        warn("stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output left; there is nobody to complain to
        raise SystemExit(1) from None
