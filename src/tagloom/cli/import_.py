"""`tagloom import`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tagloom.extras import needs_train
from tagloom.terminal import open_console, print_line


def import_(
    kind: Annotated[
        Literal["ml-decoder", "query2label"], typer.Argument(help="Whose checkpoint it is.", show_default=False)
    ],
    file: Annotated[Path, typer.Argument(help="A .pth, .pkl or .safetensors file of a whole model.")],
    out: Annotated[Path, typer.Option(help="Write to this folder; no existing file is overwritten.")],
    classes: Annotated[
        Path | None,
        typer.Option(help="Names of the classes, one per line, in the order of the logits (default: the file's own)."),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="timm name of the backbone (default: told by the tensors of TResNets and ResNets)."),
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Side of the pictures in pixels (default: what the file tells, or 448).", min=32)
    ] = None,
    attention_heads: Annotated[
        int | None, typer.Option(help="Heads of every attention (default: 8 for ml-decoder, 4 for query2label).", min=1)
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            "--normalise/--plain-pixels",
            help="Normalise pixels as the backbone's weights usually want it, or leave them at 0 to 1 "
            "(default: as the authors do).",
        ),
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx/--no-onnx", help="Write model.onnx too.")] = True,
) -> None:
    """Turn a checkpoint of a paper's authors, backbone and head, into a tagger folder.

    Example: tagloom import ml-decoder tresnet_l_COCO__448_90_0.pth --out runs/ml-decoder

    Every tensor of the file must have its place in the network, and every one that the network needs must be there.
    Files are read without running any code in them.
    """
    with needs_train("importing"):
        from tagloom.models.authors.convert import import_checkpoint
    from tagloom.data.parsing.classes import read_classes

    spec = import_checkpoint(
        kind,
        file,
        out,
        classes=None if classes is None else read_classes(classes),
        backbone=backbone,
        size=size,
        attention_heads=attention_heads,
        normalise=normalise,
        onnx=onnx,
    )
    print_line(
        open_console(),
        f"Written to {out}: {spec.backbone} with head {spec.head}, {len(spec.classes)} classes, "
        f"{spec.preprocess.size} pixels. Try: tagloom predict {out} photo.jpg",
    )
