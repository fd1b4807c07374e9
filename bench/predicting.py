"""How much of the machine `tagloom predict` uses: against bare ONNX Runtime, and against scripts that people write.

    python bench/predicting.py [PHOTOS] [--images 2000] [--rounds 3]

PHOTOS is a folder of small JPEGs, for example coco-mini's (256 px); without it, scenes are drawn. From a few of them
12-megapixel JPEGs are made. All sides take turns in one run, and the best round of each counts. Next to images per
second stands the processor time per image, which says more than the clock where a machine is busy with other things; of
Python scripts it includes the start.

- tagloom: the command with the ready tagger, `tagloom predict FOLDER --out tags.csv`, start of Python included.
- ONNX Runtime: the ready tagger's network alone, logits only, on pictures that are in memory already, with every
  combination of streams (1 or one per core), threads per stream (1 or all cores) and batch (1, 8, 32) that does not use
  a core twice.
- Pillow and ONNX Runtime: the same network on the files, in one thread per core that opens, decodes, resizes and runs.
  No start, no checks, no tags: what is left to gain with these two libraries.
- timm: what a tutorial shows. The same backbone and input size, PIL and torchvision's transforms, batches of 32, in
  eager torch; and the same in channels-last.
"""

import argparse
import io
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from drawn import image_folder
from ratio import Ratio, as_table, of_rates
from tagloom.cores import usable_cores
from tagloom.data.reading import read_pictures
from tagloom.ready import ready_folder
from tagloom.tagger.onnx_outputs import first_output_alone
from tagloom.tagger.spec import read_spec

Run = tuple[int, float]
"""How many images, in how many seconds."""
WITH_DECODING = "Pillow and ONNX Runtime"
LARGE = (4000, 3000)
LARGE_IMAGES = 60
TIMM_IMAGES = 256  # enough to time it: it is slow
TIMM_SCRIPT = """
import sys, time
import torch, timm
from pathlib import Path
from PIL import Image
from torchvision import transforms as T
folder, count, layout, threads = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
name, size = sys.argv[5], int(sys.argv[6])
torch.set_num_threads(threads)
model = timm.create_model(name, pretrained=False, num_classes=80).eval()
resize = T.Resize((size, size), T.InterpolationMode.BICUBIC)
prepare = T.Compose([resize, T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])
form = torch.channels_last if layout == "channels-last" else torch.contiguous_format
model = model.to(memory_format=form)
paths = sorted(folder.iterdir())[:count]
started = time.perf_counter()
with torch.inference_mode():
    for first in range(0, len(paths), 32):
        pictures = [prepare(Image.open(path).convert("RGB")) for path in paths[first : first + 32]]
        torch.sigmoid(model(torch.stack(pictures).to(memory_format=form)))
print(time.perf_counter() - started)
"""


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("photos", type=Path, nargs="?")
    arguments.add_argument("--images", type=int, default=2000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    best, least = measure(given.photos, given.images, given.rounds)
    for name, rate in best.items():
        print(f"{name:<44} {rate:7.1f} images/s  {least[name]:7.2f} ms of a core each")
    print(as_table(ratios(best, given.images)))


def run(brief: bool = False) -> list[Ratio]:
    """Compare on drawn scenes, or on the photographs of TAGLOOM_BENCH_PHOTOS."""
    images = 64 if brief else 2000
    best, _ = measure(None, images, rounds=1 if brief else 2)
    return ratios(best, images)


def measure(photos: Path | None, images: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Give the images per second of all sides, and the milliseconds of a core that an image takes."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        if photos is None:
            image_folder(small, images)
        else:
            copy_photos(photos, small, images)
        make_large(small, large, min(LARGE_IMAGES, images // 8))
        sides: dict[str, Callable[[], Run]] = {"tagloom": lambda: tagloom(small)}
        sides |= onnx_sides(small)
        for layout in ("plain", "channels-last"):
            sides[f"timm, {layout}"] = lambda layout=layout: timm(small, TIMM_IMAGES, layout)  # type: ignore[misc]
        sides["tagloom, 12 megapixels"] = lambda: tagloom(large)
        sides["timm, 12 megapixels"] = lambda: timm(large, LARGE_IMAGES, "plain")
        best = dict.fromkeys(sides, 0.0)
        least = dict.fromkeys(sides, math.inf)
        for _ in range(rounds):
            for name, run_side in sides.items():
                before = processor_seconds()
                count, seconds = run_side()
                best[name] = max(best[name], count / seconds)
                least[name] = min(least[name], 1000 * (processor_seconds() - before) / count)
        return best, least


def ratios(best: dict[str, float], images: int) -> list[Ratio]:
    """Give the ratios that matter."""
    bare = {name: rate for name, rate in best.items() if name.startswith("ONNX Runtime")}
    batched = {name: rate for name, rate in bare.items() if not name.endswith("batch 1")}
    what, large = f"`tagloom predict`, {images:,} images of 256 px", "`tagloom predict`, images of 12 megapixels"
    found = []
    for which, rivals in (("the best with batches of 8 or 32", batched), ("the best of all settings", bare)):
        name = max(rivals, key=lambda rival: rivals[rival])
        found.append(of_rates(what, f"bare {name}: {which}", best["tagloom"], rivals[name]))
    rival = f"{WITH_DECODING} on the same files, in a thread per core: no start, no checks, no tags"
    found.append(of_rates(what, rival, best["tagloom"], best[WITH_DECODING]))
    found += [
        of_rates(what, f"a timm script, {layout}", best["tagloom"], best[f"timm, {layout}"])
        for layout in ("plain", "channels-last")
    ]
    large_rates = (best["tagloom, 12 megapixels"], best["timm, 12 megapixels"])
    return [*found, of_rates(large, "a timm script", *large_rates)]


def processor_seconds() -> float:
    """Give the processor time that this process and its children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def tagloom(folder: Path) -> Run:
    """Run the command."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "tagloom", "predict", str(folder), "--out", str(Path(out, "tags.csv"))]
        subprocess.run(command, check=True, capture_output=True)
    return len(list(folder.iterdir())), time.perf_counter() - started


def onnx_sides(folder: Path) -> dict[str, Callable[[], Run]]:
    """Give a run of bare ONNX Runtime for each setting of streams, threads and batch."""
    import onnxruntime

    cores, path = usable_cores(), ready_folder() / "model.onnx"
    preprocess = read_spec(ready_folder()).preprocess
    logits_alone, _ = first_output_alone(path)  # heat maps would cost the rival 15 %
    batches = read_pictures(sorted(folder.iterdir())[:512], preprocess, threads=cores)
    pictures = np.concatenate([batch.pixels for batch in batches])

    def open_session(threads: int) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(logits_alone or str(path), options, providers=["CPUExecutionProvider"])

    def run(session: onnxruntime.InferenceSession, streams: int, size: int) -> Run:
        name = session.get_inputs()[0].name
        started = time.perf_counter()
        with ThreadPoolExecutor(streams) as pool:
            parts = range(0, len(pictures), size)
            list(pool.map(lambda first: session.run(None, {name: pictures[first : first + size]}), parts))
        return len(pictures), time.perf_counter() - started

    alone, paths, side = open_session(1), sorted(folder.iterdir()), (preprocess.size, preprocess.size)

    def decode_and_run(path: Path) -> None:
        with Image.open(path) as image:
            picture = image.convert("RGB").resize(side, Image.Resampling.BICUBIC)
        alone.run(None, {alone.get_inputs()[0].name: np.asarray(picture)[None]})

    def with_decoding() -> Run:
        started = time.perf_counter()
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(decode_and_run, paths))
        return len(paths), time.perf_counter() - started

    found: dict[str, Callable[[], Run]] = {WITH_DECODING: with_decoding}
    for streams, threads in dict.fromkeys([(cores, 1), (1, cores)]):
        session = open_session(threads)
        for size in (1, 8, 32):
            label = f"ONNX Runtime, {streams} x {threads} threads, batch {size}"
            found[label] = lambda session=session, streams=streams, size=size: run(session, streams, size)  # type: ignore[misc]
    return found


def timm(folder: Path, count: int, layout: str) -> Run:
    """Run the script; its seconds are without the start of Python and torch."""
    spec = read_spec(ready_folder())
    network = [spec.backbone, str(spec.preprocess.size)]
    command = [sys.executable, "-c", TIMM_SCRIPT, str(folder), str(count), layout, str(usable_cores()), *network]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return count, float(found.stdout)


def copy_photos(source: Path, target: Path, count: int) -> None:
    """Copy so many photographs into a folder of their own."""
    target.mkdir()
    found = sorted(path for path in source.iterdir() if path.suffix == ".jpg")[:count]
    for path in found:
        shutil.copyfile(path, target / path.name)


def make_large(source: Path, target: Path, count: int) -> None:
    """Make so many 12-megapixel JPEGs from small ones."""
    target.mkdir()
    for path in sorted(source.iterdir())[:count]:
        (target / path.name).write_bytes(large_jpeg(path))


def large_jpeg(path: Path) -> bytes:
    """Make a 12-megapixel JPEG of a small one, with grain, so that it is as hard to decode as a camera's."""
    pixels = np.asarray(Image.open(path).convert("RGB").resize(LARGE, Image.Resampling.BICUBIC), np.int16)
    grain = np.random.default_rng(0).integers(-12, 13, pixels.shape, np.int16)
    stream = io.BytesIO()
    Image.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


if __name__ == "__main__":
    main()
