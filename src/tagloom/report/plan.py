"""A plan for data past this machine, as tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.report.table import as_text, make_table
from tagloom.sizing.estimate import Estimate, Hardware, Size
from tagloom.sizing.profile import Profile


def render_plan(
    found: Estimate, profile: Profile, size: Size, hardware: Hardware, console: Console, given: Sequence[str] = ()
) -> None:
    """Print what was measured, what was assumed, and what follows.

    Args:
        found: What follows.
        profile: What it follows from.
        size: What is to be trained and tagged.
        hardware: What it is to run on.
        console: Where to print.
        given: What of the profile was replaced by figures that somebody gave.
    """
    console.print(as_text(f"From {profile.machine} ({profile.device}), {profile.source}; {profile.network}."))
    console.print(_profile(profile))
    for sentence in (*given, *_assumed(profile, size, hardware)):
        console.print(as_text(f"Assumed: {sentence}", "dim"))
    table = make_table("Time", "stage", ">time", "held up by", "each resource alone")
    for stage in found.stages:
        alone = ", ".join(f"{name} {duration(seconds)}" for name, seconds in stage.resources.items() if seconds)
        table.add_row(stage.name, duration(stage.seconds), stage.bottleneck, alone)
    table.add_row("together", duration(found.seconds), "", "", style="bold")
    console.print(table)
    console.print(_bytes("Disk", found.disk))
    console.print(_bytes("Memory of each machine", found.memory))
    name, resource = found.bottleneck
    console.print(Text(f"Bottleneck: {resource}, in '{name}'.", style="bold"))
    needed = sum(found.memory.values())
    if needed > profile.memory_bytes:
        say = f"{size_of(needed)} of memory are needed, and the profile's machine has {size_of(profile.memory_bytes)}."
        console.print(Text(f"{say} Take machines with more, or train on a part of the images.", style="yellow"))
    if found.money is not None:
        each = f"{hardware.machines:,} x {hardware.price_per_hour:g} an hour"
        console.print(Text(f"Money: {found.money:,.2f} (machines at {each})"))


def duration(seconds: float) -> str:
    """Say how long something takes.

    >>> [duration(value) for value in (0.2, 90, 5400, 200_000, 1e8)]
    ['0.2 s', '1.5 min', '1.5 h', '2.3 days', '3.2 years']
    """
    for limit, unit, name in (
        (60, 1, "s"),
        (3600, 60, "min"),
        (86_400, 3600, "h"),
        (86_400 * 365, 86_400, "days"),
    ):
        if seconds < limit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / (86_400 * 365):.1f} years"


def size_of(count: float) -> str:
    """Say how much space something takes.

    >>> [size_of(value) for value in (3e4, 2.5e9, 7e12)]
    ['0.03 MB', '2.5 GB', '7.0 TB']
    """
    if count < 1e9:
        return f"{count / 1e6:.2g} MB" if count < 1e8 else f"{count / 1e6:.0f} MB"
    return f"{count / 1e12:.1f} TB" if count >= 1e12 else f"{count / 1e9:.1f} GB"


def _profile(profile: Profile) -> Table:
    table = make_table("The profile", "", ">")
    rows = (
        ("one core decodes", f"{profile.decode_rate:,.0f} images/s"),
        ("the device extracts", f"{profile.extract_rate:,.0f} images/s"),
        ("a training step of the head costs per image", f"{1e3 * profile.head_seconds_per_image:.3f} ms"),
        ("and for 1,000 labels more", f"{1e6 * profile.head_seconds_per_label:.3f} ms"),
        ("the disk gives", f"{profile.read_rate / 1e6:,.0f} MB/s"),
        ("an image file has", f"{profile.image_bytes / 1e3:,.0f} KB"),
        ("its features have, per view", f"{profile.feature_bytes / 1e3:,.0f} KB"),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _assumed(profile: Profile, size: Size, hardware: Hardware) -> list[str]:
    sentences = [f"{size.epochs:g} epochs, {size.labels_per_image:g} known labels per image"]
    if not size.whole_network:
        sentences[0] += f", {size.views} cached views"
    if hardware.gpus and hardware.gpu_rate is not None:
        rate = f"{hardware.gpu_rate:,.0f} images/s"
        sentences.append(f"one GPU extracts {rate}, as given, and is faster by the same factor in training the head")
    elif hardware.gpus and profile.device == "cpu":
        sentences.append(
            "NO GPU WAS MEASURED: each GPU counts as the processor of the profile, so times are far too long. Measure "
            "one, or give its rate: --gpu-rate"
        )
    if hardware.machines * max(hardware.gpus, 1) > 1:
        sentences.append(f"several devices reach {100 * hardware.efficiency:.0f} % of their speed together")
    return sentences


def _bytes(title: str, parts: dict[str, float]) -> Table:
    table = make_table(title, "what", ">size")
    for name, count in parts.items():
        table.add_row(name, size_of(count))
    table.add_row("together", size_of(sum(parts.values())), style="bold")
    return table
