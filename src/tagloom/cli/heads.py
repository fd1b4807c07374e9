"""`tagloom heads`."""

from typing import Annotated

import typer
from rich.markup import escape

from tagloom.errors import RecipeError
from tagloom.extras import needs_train
from tagloom.terminal import open_console


def heads(
    backbone: Annotated[str, typer.Option(help="Put the heads on this timm model.")] = "tf_efficientnet_lite0",
    classes: Annotated[int, typer.Option(help="Number of classes.", min=1)] = 80,
    size: Annotated[int, typer.Option(help="Side of the images in pixels.", min=32)] = 224,
) -> None:
    """List the heads, what each is for, and its parameters and multiply-adds on a backbone.

    Example: tagloom heads --backbone resnet50 --classes 20
    """
    with needs_train("counting"):
        from tagloom.models.cost import tagger_cost
        from tagloom.models.heads import head_class
    from rich.table import Table

    from tagloom.recipe.names import HEADS

    console = open_console()
    table = Table("head", title=f"{backbone}, {classes} classes, {size} x {size} pixels", title_justify="left")
    for column in ("parameters, M", "multiply-adds, G", "with backbone, G"):
        table.add_column(column, justify="right")
    for name in HEADS:
        try:
            whole, head = tagger_cost(backbone, name, classes=classes, size=size)
        except RecipeError:  # the head reads stages, and this backbone names none
            table.add_row(name, "–", "–", "–")
            continue
        counts = (
            f"{head.parameters / 1e6:.2f}",
            f"{head.multiply_adds / 1e9:.3f}",
            f"{whole.multiply_adds / 1e9:.2f}",
        )
        table.add_row(name, *counts)
    console.print(table)
    for name in HEADS:
        console.print(f"[bold]{name}[/]  {escape(head_class(name).purpose())}", markup=True)
