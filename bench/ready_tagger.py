"""The ready tagger in the small install: how large the install is, and how soon the first tags are there.

    python bench/ready_tagger.py photo.jpg

Makes a fresh environment, installs this repository into it without extras, and runs `tagloom predict photo.jpg` there
as a user would. The rival is the least that could be done: a script that imports ONNX Runtime and Pillow, loads the
same model, squeezes the picture into its square and runs it once. Both are whole processes, start of Python included,
in turns; the median of nine. What a further picture costs is the difference between 21 pictures and one.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ratio import Ratio, of_seconds
from tagloom.tagger.spec import read_spec

ROOT = Path(__file__).parent.parent
READY = ROOT / "src" / "tagloom" / "ready"
SIZE = str(read_spec(READY).preprocess.size)
MORE = 20
RIVAL = """
import sys
import numpy as np
import onnxruntime
from PIL import Image
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
side = int(sys.argv[3])
pixels = np.asarray(Image.open(sys.argv[2]).convert("RGB").resize((side, side), Image.Resampling.BICUBIC))[None]
session.run(None, {session.get_inputs()[0].name: pixels})
"""


def main() -> None:
    """Install, measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("photo", type=Path)
    photo = arguments.parse_args().photo.resolve()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        python = install(work / "environment")
        tagloom = python.parent / "tagloom"
        packages = next((work / "environment" / "lib").glob("python*")) / "site-packages"
        pip = size_of([packages / name for name in ("pip", "setuptools")])
        print(
            f"environment {size_of([packages]) - pip:.0f} MB, of which Tagloom {size_of([packages / 'tagloom']):.1f} MB"
        )
        print(f"ready tagger {size_of([READY / 'model.onnx']):.1f} MB")
        many = [Path(shutil.copy(photo, work / f"{number}.jpg")) for number in range(MORE + 1)]
        ours: list[float] = []
        rivals: list[float] = []
        longer: list[float] = []
        for _ in range(9):
            ours.append(seconds([tagloom, "predict", photo], work))
            rivals.append(seconds([python, "-c", RIVAL, READY / "model.onnx", photo, SIZE], work))
            longer.append(seconds([tagloom, "predict", *many], work))
        first, rival = statistics.median(ours), statistics.median(rivals)
        further = (statistics.median(longer) - first) / MORE
        print(f"first picture {first:.2f} s, the bare script {rival:.2f} s: {first / rival:.2f} times")
        print(f"each further picture {1000 * further:.0f} ms")
        print(subprocess.run([tagloom, "predict", photo], cwd=work, capture_output=True, text=True, check=True).stdout)


def run(brief: bool = False) -> list[Ratio]:
    """Time the first tags with the environment that is there; a photograph that a package ships."""
    from tagloom.demo import installed_photographs

    photo = installed_photographs()[-1]
    ours: list[float] = []
    rivals: list[float] = []
    for _ in range(1 if brief else 9):
        ours.append(seconds([sys.executable, "-m", "tagloom", "predict", photo], Path.cwd()))
        rivals.append(seconds([sys.executable, "-c", RIVAL, READY / "model.onnx", photo, SIZE], Path.cwd()))
    first, rival = statistics.median(ours), statistics.median(rivals)
    return [
        of_seconds("`tagloom predict` of one photograph, start included", "a bare ONNX Runtime script", first, rival)
    ]


def install(environment: Path) -> Path:
    """Make an environment with this repository in it, and give its Python."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT], check=True)
    return python


def size_of(folders: list[Path]) -> float:
    """Add up the files under some folders, in MB."""
    files = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*"))]
    return sum(path.stat().st_size for path in files if path.is_file() and not path.is_symlink()) / 1e6


def seconds(command: list[str | Path], work: Path) -> float:
    """Time one run of a command."""
    before = time.perf_counter()
    subprocess.run(command, cwd=work, capture_output=True, check=True)
    return time.perf_counter() - before


if __name__ == "__main__":
    main()
