"""Charts as SVG text: axes, lines, bars. Each has a title and a description for those who do not see it."""

from collections.abc import Sequence
from html import escape
from itertools import count
from typing import NamedTuple

_WIDTH, _HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 14, 40
_numbers = count(1)


class Line(NamedTuple):
    """A line of a chart.

    Attributes:
        name: Shown in the legend; empty for none.
        points: (x, y), in the chart's units.
        style: A class of the page's style sheet, "a" to "d" or "faint".
        dots: Whether points are marked.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: str = "a"
    dots: bool = False


class Axis(NamedTuple):
    """An axis: its name, both ends, and the ticks with their texts."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def of(cls, name: str, low: float, high: float, steps: int = 5, form: str = "{:g}") -> "Axis":
        """Make an axis with evenly spaced ticks."""
        high = high if high > low else low + 1
        values = [low + (high - low) * number / steps for number in range(steps + 1)]
        return cls(name, low, high, [(value, form.format(value)) for value in values])


def line_chart(
    title: str, description: str, lines: Sequence[Line], x: Axis, y: Axis, size: tuple[int, int] = (_WIDTH, _HEIGHT)
) -> str:
    """Draw lines."""
    frame = _Frame(x, y, size)
    parts = frame.axes()
    for line in lines:
        path = " ".join(f"{frame.x(px):.1f},{frame.y(py):.1f}" for px, py in line.points)
        parts.append(f'<polyline class="line {line.style}" points="{path}"/>')
        if line.dots:
            parts += [
                f'<circle class="dot {line.style}" cx="{frame.x(px):.1f}" cy="{frame.y(py):.1f}" r="3"/>'
                for px, py in line.points
            ]
    return _svg(title, description, parts, size) + _legend([(line.name, line.style) for line in lines if line.name])


def bar_chart(
    title: str,
    description: str,
    series: Sequence[tuple[str, str, Sequence[float]]],
    x: Axis,
    y: Axis,
    size: tuple[int, int] = (_WIDTH, _HEIGHT),
) -> str:
    """Draw series (name, style, heights) as bars side by side in equal steps along x."""
    frame = _Frame(x, y, size)
    parts = frame.axes()
    steps = len(series[0][2])
    slot = (frame.x(x.high) - frame.x(x.low)) / steps
    bar = slot * 0.9 / len(series)
    for place, (_, style, heights) in enumerate(series):
        for step, height in enumerate(heights):
            if height > y.low:
                top, left = frame.y(min(height, y.high)), frame.x(x.low) + step * slot + place * bar
                tall = frame.y(y.low) - top
                parts.append(
                    f'<rect class="bar {style}" x="{left:.1f}" y="{top:.1f}" width="{bar:.1f}" height="{tall:.1f}"/>'
                )
    return _svg(title, description, parts, size) + _legend([(name, style) for name, style, _ in series])


class _Frame:
    def __init__(self, x: Axis, y: Axis, size: tuple[int, int]) -> None:
        self._x, self._y = x, y
        self._width, self._height = size

    def x(self, value: float) -> float:
        share = (value - self._x.low) / (self._x.high - self._x.low)
        return _LEFT + share * (self._width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self._y.low) / (self._y.high - self._y.low)
        return self._height - _BOTTOM - share * (self._height - _TOP - _BOTTOM)

    def axes(self) -> list[str]:
        left, right, bottom, top = (
            self.x(self._x.low),
            self.x(self._x.high),
            self.y(self._y.low),
            self.y(self._y.high),
        )
        parts = []
        for value, text in self._y.ticks:
            parts.append(f'<path class="grid" d="M{left:.1f} {self.y(value):.1f}H{right:.1f}"/>')
            parts.append(f'<text class="end" x="{left - 6:.1f}" y="{self.y(value) + 4:.1f}">{escape(text)}</text>')
        for value, text in self._x.ticks:
            parts.append(f'<text class="mid" x="{self.x(value):.1f}" y="{bottom + 16:.1f}">{escape(text)}</text>')
        parts.append(f'<path class="axis" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>')
        middle = (left + right) / 2
        parts.append(f'<text class="mid" x="{middle:.1f}" y="{self._height - 6}">{escape(self._x.name)}</text>')
        half = (top + bottom) / 2
        parts.append(
            f'<text class="mid" transform="translate(13 {half:.1f}) rotate(-90)">{escape(self._y.name)}</text>'
        )
        return parts


def _svg(title: str, description: str, parts: Sequence[str], size: tuple[int, int]) -> str:
    number = next(_numbers)
    names = f"t{number} d{number}"
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-labelledby="{names}">'
        f'<title id="t{number}">{escape(title)}</title><desc id="d{number}">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    if not entries:
        return ""
    items = "".join(f'<li><i class="key {style}"></i>{escape(name)}</li>' for name, style in entries)
    return f'<ul class="legend">{items}</ul>'
