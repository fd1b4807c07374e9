"""The model card: the README that explains a tagger folder.

A card is also written for a tagger that somebody else trained. Metrics and data in its `tagger.json` are free, so what
has an unexpected form is left out here.
"""

from pathlib import Path
from typing import Any

from tagloom.recipe.names import SHOWN_METRICS
from tagloom.tagger.spec import TaggerSpec

_OTHERS = {"teachers": "its teachers, merged", "baseline": "the same without teachers"}
"""What of a student's metrics is about others, and whose it is."""


def model_card(spec: TaggerSpec) -> str:
    """Write the model card of a tagger, in Markdown."""
    recipe = _one_line(spec.recipe.get("name", "custom"))
    title = f"# A tagger for {len(spec.classes)} labels\n"
    imported = spec.data.get("imported_from")
    origin = f"Imported with Tagloom {spec.version} from {_one_line(imported)}" if imported else ""
    intro = (
        f"{origin or f'Trained with Tagloom {spec.version}, recipe `{recipe}`'}: "
        f"backbone `{spec.backbone}`, head `{spec.head}`, pictures of {spec.preprocess.size} x {spec.preprocess.size} "
        f"pixels ({spec.preprocess.fit}).\n"
    )
    use = (
        '## Use\n\n```python\nimport tagloom\n\ntagger = tagloom.load("this folder")\n'
        'tagger.predict("photo.jpg")  # [[Tag(label=…, score=…), …]]\n```\n\n'
        "or `tagloom predict FOLDER photo.jpg`. With `model.onnx` it needs no torch: `pip install tagloom` is enough.\n"
    )
    if spec.words is not None:
        path = Path(spec.words.source)
        source = path.name if path.is_absolute() else spec.words.source  # a folder means nothing on another machine
        use += (
            f"\nIt also scores labels that it was not trained on, with word queries (`{source}`): "
            '`tagger.predict("photo.jpg", labels=["surfboard", "wedding"])`.\n'
        )
    return "\n".join([title, intro, use, _data(spec), _metrics(spec), _classes(spec), _limits(spec), _licence(spec)])


def _data(spec: TaggerSpec) -> str:
    shown = {
        name: (", ".join(map(str, value)) or "none") if isinstance(value, list) else value
        for name, value in spec.data.items()
    }
    rows = [f"- {_in_words(name)}: {_one_line(value)}" for name, value in shown.items()]
    return "## Data\n\n" + "\n".join(rows) + "\n"


def _metrics(spec: TaggerSpec) -> str:
    rows = []
    for part, figures in spec.metrics.items():
        if part in _OTHERS:
            rows.extend(_levels(_OTHERS[part], figures))
        elif isinstance(figures, dict):
            shown = [
                f"{name} {figures[name]:.2f}" for name in SHOWN_METRICS[spec.task] if _is_number(figures.get(name))
            ]
            note = f" (its {_chosen_on_held_out(spec)} on these images)" if part == "held_aside" else ""
            rows.append(f"- {_in_words(part)}: {', '.join(shown)}{note}{_calibration_errors(figures)}")
    if not rows:
        return "## Metrics\n\nNot measured: there was no validation table, and no images were held out.\n"
    return "## Metrics\n\nIn percent, with the tagger's own thresholds:\n\n" + "\n".join(rows) + "\n"


def _levels(whose: str, figures: object) -> list[str]:
    """Say how good a student's teachers are, by kind, or the student without them, by the images measured on."""
    found = figures if isinstance(figures, dict) else {}
    nested = {kind: level for kind, level in found.items() if isinstance(level, dict)} or {"": found}
    rows = []
    for kind, level in nested.items():
        shown = [f"mAP {value:.2f} ({_in_words(part)})" for part, value in level.items() if _is_number(value)]
        if shown:
            rows.append(f"- {whose}{f', {_one_line(kind)}' if kind else ''}: {_one_line(', '.join(shown))}")
    return rows


def _in_words(key: str) -> str:
    """Turn a key of `tagger.json` into words; images "held aside" there are said to be held out everywhere else."""
    return key.replace("held_aside", "held_out").replace("_", " ")


def _chosen_on_held_out(spec: TaggerSpec) -> str:
    return "thresholds were chosen" + ("" if spec.calibration is None else " and its scores calibrated")


def _calibration_errors(figures: dict[str, Any]) -> str:
    """Say how far scores are from probabilities, if that was measured."""
    parts = _dict(figures, "calibration")
    errors = [_dict(_dict(parts, part), "equal-width").get("ECE") for part in ("before", "after") if part in parts]
    if "before" not in parts or not all(map(_is_number, errors)):
        return ""
    named = "expected calibration error "
    return "; " + named + (f"{errors[0]:.2f}" if len(errors) == 1 else f"{errors[1]:.2f}, uncalibrated {errors[0]:.2f}")


def _classes(spec: TaggerSpec) -> str:
    figures = _dict(spec.metrics, "validation") or _dict(spec.metrics, "held_aside")
    precision = figures.get("AP")
    if not isinstance(precision, list) or len(precision) != len(spec.classes):
        precision = [None] * len(spec.classes)
    single = spec.task == "single"  # the best class is the answer, so thresholds do not matter
    rows = ["## Labels\n", "| label | AP |" if single else "| label | threshold | AP |"]
    rows.append("| --- " * (2 if single else 3) + "|")
    for name, threshold, average in zip(spec.classes, spec.threshold_row(), precision, strict=True):
        cells = [_one_line(name).replace("|", "\\|"), *([] if single else [f"{threshold:.3f}"])]
        rows.append(f"| {' | '.join(cells)} | {f'{average:.1f}' if _is_number(average) else '–'} |")
    return "\n".join(rows) + "\n"


def _limits(spec: TaggerSpec) -> str:
    unlearnt = spec.data.get("classes_without_positive")
    text = "## Limits\n\nScores hold for images like those it was trained on. "
    if spec.thresholds:
        aim = _one_line(_dict(spec.recipe, "thresholds").get("aim", "fixed"))
        text += f"Thresholds were chosen on images held out of training (aim: {aim}).\n"
    else:
        text += "No thresholds were chosen for it, so all are 0.5.\n"
    if spec.calibration is not None:
        own = "per label, close to the shared one for labels with few images"
        whose = own if spec.calibration.scales else "for all labels"
        text += (
            f"\nScores are calibrated on the same images (beta calibration {whose}): "
            "of all labels that score 0.7, about seven in ten should be true.\n"
        )
    if unlearnt and isinstance(unlearnt, list):
        names = ", ".join(map(_one_line, unlearnt))
        text += f"\nThese labels had no positive image in training, so their scores mean nothing: {names}.\n"
    return text


def _licence(spec: TaggerSpec) -> str:
    return f"## Licence\n\n{_one_line(spec.recipe.get('licence', 'not stated'))}\n"


def _dict(content: dict[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_line(value: object) -> str:
    """Write a value so that it cannot begin a heading or a table of its own."""
    return " ".join(str(value).split())
