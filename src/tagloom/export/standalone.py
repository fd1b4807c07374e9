"""One ONNX file for other programs: pictures of any size in, scores out, class names in its metadata.

What Tagloom does around the network becomes part of the graph: fitting a picture into the square, calibration, and the
step from logits to scores. Tagloom itself does not use this file.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tagloom.data.label_tree import LabelTree
from tagloom.data.transforms import prepare
from tagloom.errors import TaggerError
from tagloom.export.graph import PICTURES, constants_of, read_logits, replace_contents, write_graph
from tagloom.predict.tagger import Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.spec import TaggerSpec

STANDALONE_FILE = "standalone.onnx"
SCORES = "scores"
PILLOW_CUBIC = -0.5  # the curve of Pillow's bicubic interpolation


def write_standalone(source: Path, target: Path, spec: TaggerSpec, preprocess: bool, scores: bool) -> None:
    """Write the network of a tagger with what surrounds it.

    Args:
        source: Its `model.onnx`.
        target: The file to write.
        spec: The tagger.
        preprocess: Take uint8 pictures (B, H, W, 3) of any height and width, and fit them into the square.
        scores: Give calibrated scores (B, N) named "scores" instead of logits.
    """
    if spec.words is not None:
        raise TaggerError(
            "a tagger with word queries takes words with every picture, so it cannot be one file of its own. Export it "
            "without --preprocess-inside and --scores-inside."
        )
    model = read_logits(source)
    made = _Surrounded(model)
    if preprocess:
        made.fit_pictures(spec.preprocess)
    if scores:
        made.give_scores(spec)
    made.finish()
    _describe(model, spec, scores)
    write_graph(model, target)


def standalone_difference(
    path: Path, tagger: Tagger, pictures: Sequence[NDArray[np.uint8]], preprocess: bool, scores: bool
) -> float:
    """Give the largest difference between the scores of a standalone file and those of its tagger."""
    network = OnnxNetwork(path, threads=1, ours=True)
    worst = []
    for picture in pictures:
        given = picture if preprocess else prepare(Image.fromarray(picture), tagger.spec.preprocess)
        (found,) = network(given[None])
        worst.append(np.abs((found if scores else tagger.to_scores(found)) - tagger.scores(picture)).max())
    return float(np.max(worst))  # NaN if any is


class _Surrounded:
    """A graph, and what is put before and after it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._constants = constants_of(model)

    def fit_pictures(self, preprocess: Preprocess) -> None:
        """Fit pictures of any size into the square: the middle for `crop`, then antialiased interpolation."""
        from onnx import TensorProto, helper

        self._rename_input("squares")
        del self._model.graph.input[:]
        shape: list[str | int | None] = ["batch", "height", "width", 3]
        self._model.graph.input.append(helper.make_tensor_value_info(PICTURES, TensorProto.UINT8, shape))
        seen, roi = PICTURES, ""
        mode = {"bicubic": "cubic", "bilinear": "linear"}[preprocess.interpolation]
        options: dict[str, Any] = {"cubic_coeff_a": PILLOW_CUBIC, "exclude_outside": 1} if mode == "cubic" else {}
        if preprocess.fit == "crop":
            seen, roi = self._crop_middle(preprocess)
            options["coordinate_transformation_mode"] = "tf_crop_and_resize"
        square = self._constant("fit/square", np.array([3, preprocess.size, preprocess.size], np.int64))
        self._add_before("Shape", [PICTURES], "fit/count", start=0, end=1)
        self._add_before("Concat", ["fit/count", square], "fit/size", axis=0)
        self._add_before("Transpose", [seen], "fit/planes", perm=[0, 3, 1, 2])
        inputs = ["fit/planes", roi, "", "fit/size"]
        self._add_before("Resize", inputs, "fit/resized", mode=mode, antialias=1, **options)
        self._add_before("Transpose", ["fit/resized"], "squares", perm=[0, 2, 3, 1])

    def _crop_middle(self, preprocess: Preprocess) -> tuple[str, str]:
        """Cut out the whole pixels around the middle square and one more, and name them and the square's place there.

        The one more is for small pictures: when they are enlarged, the middle of the first pixel lies before that of
        the pixel that it comes from. At the picture's own edge its last pixels are repeated.

        The place is given as Resize wants it: where the middles of the first and the last pixel lie, as shares of the
        distance between the middles of the outermost pixels.
        """
        step = self._number("fit/step", preprocess.crop_share / preprocess.size)  # of a pixel, per shorter side
        share = self._number("fit/share", preprocess.crop_share)
        half, one, axes = self._number("fit/half", 0.5), self._number("fit/one", 1.0), np.array([1, 2], np.int64)
        self._add_before("Shape", [PICTURES], "fit/extent", start=1, end=3)
        self._add_before("Cast", ["fit/extent"], "fit/sides", to=1)
        self._add_before("ReduceMin", ["fit/sides"], "fit/shorter", keepdims=1)
        self._add_before("Mul", ["fit/shorter", share], "fit/side")
        self._add_before("Sub", ["fit/sides", "fit/side"], "fit/margins")
        self._add_before("Mul", ["fit/margins", half], "fit/low")
        self._add_before("Add", ["fit/low", "fit/side"], "fit/high")
        self._add_before("Floor", ["fit/low"], "fit/first")
        self._add_before("Ceil", ["fit/high"], "fit/last")
        for name in ("first", "last"):
            self._add_before("Cast", [f"fit/{name}"], f"fit/{name}_whole", to=7)
        around = self._constant("fit/around", np.array([0, 1, 1, 0] * 2, np.int64))
        self._add_before("Pad", [PICTURES, around], "fit/padded", mode="edge")
        self._add_before("Add", ["fit/last_whole", self._constant("fit/both", np.array([2], np.int64))], "fit/stop")
        self._add_before(
            "Slice", ["fit/padded", "fit/first_whole", "fit/stop", self._constant("fit/axes", axes)], "fit/middle"
        )
        self._add_before("Mul", ["fit/shorter", step], "fit/pixel")
        self._add_before("Mul", ["fit/pixel", half], "fit/half_pixel")
        self._add_before("Sub", ["fit/last", "fit/first"], "fit/length")
        self._add_before("Add", ["fit/length", one], "fit/distance")
        for name, corner, operator in (("begin", "low", "Add"), ("end", "high", "Sub")):
            self._add_before("Sub", [f"fit/{corner}", "fit/first"], f"fit/{name}_corner")
            self._add_before(operator, [f"fit/{name}_corner", "fit/half_pixel"], f"fit/{name}_pixel")
            self._add_before("Add", [f"fit/{name}_pixel", half], f"fit/{name}_middle")  # one more, less a half
            self._add_before("Div", [f"fit/{name}_middle", "fit/distance"], f"fit/{name}")
        zeros = self._constant("fit/zeros", np.zeros(2, np.float32))
        ones = self._constant("fit/ones", np.ones(2, np.float32))
        self._add_before("Concat", [zeros, "fit/begin", ones, "fit/end"], "fit/place", axis=0)
        return "fit/middle", "fit/place"

    def _number(self, name: str, value: float) -> str:
        return self._constant(name, np.array([value], np.float32))

    def give_scores(self, spec: TaggerSpec) -> None:
        """Turn logits into scores as `to_scores` does."""
        from onnx import TensorProto, helper

        last = self._model.graph.output[0].name
        if spec.calibration is not None:
            own = spec.calibration
            scale, offset = (own.scales, own.offsets) if own.scales else (own.scale, own.offset)
            last = self._bent(last, own.bends or own.bend)
            stretch = self._constant("calibration/scale", np.asarray(scale, np.float32))
            self._add_after("Mul", [last, stretch], "calibration/scaled")
            shift = self._constant("calibration/offset", np.asarray(offset, np.float32))
            self._add_after("Add", ["calibration/scaled", shift], "calibration/calibrated")
            last = "calibration/calibrated"
        raised = bool(spec.tree)
        squashed = "tree/scores" if raised else SCORES
        if spec.activation == "softmax":
            self._add_after("Softmax", [last], squashed, axis=1)
        else:
            self._add_after("Sigmoid", [last], squashed)
        if raised:
            below = self._constant("tree/below", _descendants(spec.tree))
            self._add_after("Gather", [squashed, below], "tree/families", axis=1)
            axis = self._constant("tree/axis", np.array([2], np.int64))
            self._add_after("ReduceMax", ["tree/families", axis], SCORES, keepdims=0)
        del self._model.graph.output[:]
        shape: list[str | int | None] = ["batch", len(spec.classes)]
        self._model.graph.output.append(helper.make_tensor_value_info(SCORES, TensorProto.FLOAT, shape))

    def _bent(self, logits: str, bend: float | tuple[float, ...]) -> str:
        """Give logits above 0 another slope, as `scoring.calibration.bent` does; gives the name of the result."""
        more = np.asarray(bend, np.float32) - 1
        if not more.any():
            return logits
        self._add_after("Softplus", [logits], "calibration/above")
        self._add_after("Mul", ["calibration/above", self._constant("calibration/more", more)], "calibration/added")
        self._add_after("Add", [logits, "calibration/added"], "calibration/bent")
        return "calibration/bent"

    def finish(self) -> None:
        """Put everything into the graph."""
        nodes = [*self._before, *self._model.graph.node, *self._after]
        replace_contents(self._model, nodes, self._constants)

    def _rename_input(self, name: str) -> None:
        for node in self._model.graph.node:
            for index, given in enumerate(node.input):
                if given == PICTURES:
                    node.input[index] = name

    def _constant(self, name: str, value: Any) -> str:
        self._constants[name] = np.asarray(value)
        return name

    def _add_before(self, operator: str, inputs: list[str], output: str, **options: Any) -> None:
        from onnx import helper

        self._before.append(helper.make_node(operator, inputs, [output], **options))

    def _add_after(self, operator: str, inputs: list[str], output: str, **options: Any) -> None:
        from onnx import helper

        self._after.append(helper.make_node(operator, inputs, [output], **options))


def _descendants(tree: LabelTree) -> Any:
    """Give for each class its own column and those below it, (N, most), padded with its own."""
    families = [[column] for column in range(len(tree.classes))]
    for column in range(len(tree.classes)):
        above = int(tree.parent[column])
        while above >= 0:
            families[above].append(column)
            above = int(tree.parent[above])
    most = max(map(len, families))
    return np.array([family + family[:1] * (most - len(family)) for family in families], np.int64)


def _describe(model: Any, spec: TaggerSpec, scores: bool) -> None:
    """Write class names, and thresholds where scores are given, into the file's metadata, as JSON."""
    from onnx import helper

    described = {"classes": json.dumps(spec.classes, ensure_ascii=False), "task": spec.task, "producer": "Tagloom"}
    if scores:
        described["thresholds"] = json.dumps([round(float(value), 6) for value in spec.threshold_row()])
    helper.set_model_props(model, described)
