"""How results show themselves: a line for `repr`, and tables for notebooks, escaped and without dependencies."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from tagloom.wording import and_more, printable

SHOWN_CLASSES = 10
"""Classes listed at either end of a ranking; a table that fits on a screen."""
_HEADLINE = ("top1", "mAP", "CF1", "OF1")


def headline(metrics: dict[str, Any]) -> str:
    """Give the main metrics in a line.

    >>> headline({"mAP": 71.234, "CF1": 60.0, "OF1": 65.5, "AP": [50.0]})
    'mAP 71.23, CF1 60.00, OF1 65.50'
    """
    return ", ".join(f"{name} {metrics[name]:.2f}" for name in _HEADLINE if name in metrics)


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Build an HTML table. Every text is escaped: names of classes come from other people's files.

    Args:
        title: Shown above the table.
        header: One name per column; the first column holds text, the others numbers.
        rows: One value per column; floats get two decimals, None becomes a dash.
        note: Shown below the table.

    >>> html_table("AP", ["class", "AP"], [["<b>", 50.0]])
    '<p><b>AP</b></p><table><tr><th>class</th><th>AP</th></tr><tr><td>&lt;b&gt;</td><td>50.00</td></tr></table>'
    """
    lines = [f"<tr>{''.join(f'<th>{_cell(name)}</th>' for name in header)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows]
    above = f"<p><b>{_cell(title)}</b></p>" if title else ""
    below = f"<p>{_cell(note)}</p>" if note else ""
    return f"{above}<table>{''.join(lines)}</table>{below}"


def metrics_html(title: str, metrics: dict[str, Any], classes: Sequence[str]) -> str:
    """Show the result of `tagloom.metrics.score`: the main metrics, then the best and the worst classes.

    Args:
        title: Shown above the tables.
        metrics: What `score` returned.
        classes: The N class names, in the order of the scores; without them only the main metrics are shown.
    """
    names = [name for name in _HEADLINE if name in metrics]
    tables = [html_table(title, ["images", *names], [[f"{metrics['images']:,}", *(metrics[name] for name in names)]])]
    if classes:
        pairs = zip(classes, metrics["AP"], strict=True)
        ranked = sorted(((name, ap) for name, ap in pairs if ap is not None), key=lambda pair: -pair[1])
        absent = [classes[index] for index in metrics["classes_without_positive"]]
        missing = ", ".join(absent[:SHOWN_CLASSES]) + and_more(absent, SHOWN_CLASSES)
        note = f"Without a positive image, so not measured: {missing}" if absent else ""
        tables.append(html_table("Classes by average precision", ["class", "AP"], both_ends(ranked), note))
    return "".join(tables)


def both_ends(rows: Sequence[Sequence[object]]) -> list[Sequence[object]]:
    """Keep the first and the last rows of a long ranking, and say how many are between them.

    >>> len(both_ends([["cat", 1.0]] * 100)), both_ends([["cat", 1.0]])
    (21, [['cat', 1.0]])
    """
    if len(rows) <= 2 * SHOWN_CLASSES + 1:
        return list(rows)
    left_out = [f"… {len(rows) - 2 * SHOWN_CLASSES:,} more …", *[""] * (len(rows[0]) - 1)]
    return [*rows[:SHOWN_CLASSES], left_out, *rows[-SHOWN_CLASSES:]]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return escape(f"{value:.2f}" if isinstance(value, float) else printable(str(value)))
