"""The one form of a speed claim: how many times as fast as a named rival, measured in the same run.

Every bench in `all.BENCHES` has `run(brief: bool = False) -> list[Ratio]`, which draws its own data. A brief run shows
that it works; its ratios mean little.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A claim.

    Attributes:
        what: What was done, and on what.
        rival: Who did the same.
        times: How many times as fast as the rival we are.
        ours: What was measured of ours, with its unit.
        theirs: The same of the rival.
    """

    what: str
    rival: str
    times: float
    ours: str
    theirs: str


def of_seconds(what: str, rival: str, ours: float, theirs: float) -> Ratio:
    """Compare two durations in seconds."""
    return Ratio(what, rival, theirs / ours, shown_seconds(ours), shown_seconds(theirs))


def of_rates(what: str, rival: str, ours: float, theirs: float, unit: str = "images/s") -> Ratio:
    """Compare two rates."""
    return Ratio(what, rival, ours / theirs, f"{ours:,.1f} {unit}", f"{theirs:,.1f} {unit}")


def shown_seconds(seconds: float) -> str:
    """Write a duration in milliseconds or seconds.

    >>> shown_seconds(0.0123), shown_seconds(12.3)
    ('12.3 ms', '12.3 s')
    """
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def as_table(ratios: Sequence[Ratio]) -> str:
    """Write claims as a table in Markdown."""
    rows = [f"| {one.what} | {one.rival} | {one.ours} | {one.theirs} | {one.times:.2f} |" for one in ratios]
    return "\n".join(["| what | rival | Tagloom | rival's | times as fast |", "| --- | --- | --- | --- | --- |", *rows])
