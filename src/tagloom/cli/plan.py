"""`tagloom plan`."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.cli.arguments import Device, write_json
from tagloom.errors import DataError
from tagloom.extras import needs_train
from tagloom.terminal import note, open_console, print_line

if TYPE_CHECKING:
    from tagloom.sizing.profile import Profile


def plan(
    images: Annotated[float | None, typer.Option(help="How many images: 9e6 for nine million.")] = None,
    labels: Annotated[float | None, typer.Option(help="How many labels.")] = None,
    gpus: Annotated[int, typer.Option(help="GPUs of each machine; 0 to compute on its cores.")] = 0,
    machines: Annotated[int, typer.Option(help="How many machines.")] = 1,
    cores: Annotated[float | None, typer.Option(help="Cores of each machine, instead of the profile's.")] = None,
    gpu_rate: Annotated[
        float | None,
        typer.Option(help="Images per second of one GPU through the backbone, measured by you or published."),
    ] = None,
    epochs: Annotated[float, typer.Option(help="Epochs of the training.")] = 10,
    views: Annotated[int, typer.Option(help="Views of each image whose features are cached; 2 with mirrors.")] = 2,
    whole_network: Annotated[
        bool, typer.Option("--whole-network", help="Train the backbone too, on pictures decoded in every epoch.")
    ] = False,
    image_kilobytes: Annotated[
        float | None, typer.Option(help="Mean size of your image files, instead of the profile's.")
    ] = None,
    read_megabytes: Annotated[
        float | None, typer.Option(help="Megabytes per second of each machine's disk, instead of the profile's.")
    ] = None,
    price_per_hour: Annotated[float | None, typer.Option(help="Of one machine with its GPUs: prints money.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine and write its profile; about half a minute.")
    ] = False,
    photos: Annotated[
        Path | None, typer.Option(help="With --measure: a folder of your own images, instead of drawn pictures.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="With --measure: the recipe whose network is measured.")] = "quick",
    profile: Annotated[
        Path | None, typer.Option(help="The profile to write or to use: a JSON file, also of another machine.")
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write everything to this file.")] = None,
    device: Device = "auto",
) -> None:
    """Work out time, disk, memory and money for data past this machine, from what an image and a label cost here.

    Example: tagloom plan --images 9e6 --labels 9600 --gpus 8 --gpu-rate 2500 --price-per-hour 20

    The first plan measures this machine and keeps its profile; --measure measures again. Run it on a quiet machine.

    Every figure is measured by the profile, or given by you and printed as assumed. GPUs that nobody has measured count
    as the processor that was. docs/scaling.md has the arithmetic.
    """
    from tagloom.cache_folder import default_cache_folder
    from tagloom.report.plan import render_plan
    from tagloom.sizing.estimate import Hardware, Size, estimate
    from tagloom.sizing.profile import PROFILE_FILE, read_profile, write_profile

    if (images is None or labels is None) and not (measure and images is labels is None):
        raise DataError("say how many images and labels: tagloom plan --images 9e6 --labels 9600. Or use --measure.")
    path = profile or default_cache_folder() / PROFILE_FILE
    console = open_console()
    if measure or (profile is None and not path.is_file()):
        note("measuring this machine, about half a minute …")
        write_profile(_measured(recipe, photos, device), path)
        print_line(console, f"Profile in {path}")
    found = read_profile(path)
    given = []
    if image_kilobytes is not None:
        found = replace(found, image_bytes=1000 * image_kilobytes)
        given.append(f"image files of {image_kilobytes:g} KB, as given")
    if read_megabytes is not None:
        found = replace(found, read_rate=1e6 * read_megabytes)
        given.append(f"disks of {read_megabytes:g} MB/s, as given")
    if images is None or labels is None:
        if json_path:
            write_json(json_path, asdict(found))
        return
    size = Size(images, labels, epochs, views, whole_network=whole_network)
    hardware = Hardware(machines, gpus, cores, gpu_rate, price_per_hour=price_per_hour)
    result = estimate(found, size, hardware)
    render_plan(result, found, size, hardware, console, given)
    if json_path:
        stages = [{**stage._asdict(), "bottleneck": stage.bottleneck} for stage in result.stages]
        content = {**result._asdict(), "stages": stages, "seconds": result.seconds, "bottleneck": result.bottleneck}
        write_json(json_path, {**content, "profile": asdict(found), "size": asdict(size), "hardware": asdict(hardware)})


def _measured(recipe: str, photos: Path | None, device: str) -> "Profile":
    from tagloom.cache_folder import default_cache_folder
    from tagloom.predict.files import collect_images
    from tagloom.recipe import load_recipe

    with needs_train("measuring this machine"):
        from tagloom.training.machine import measure_machine

    images = [] if photos is None else collect_images([photos])
    return measure_machine(load_recipe(recipe), default_cache_folder(), images=images, device=device)
