"""Images that a bench can draw anywhere: scenes, as `tagloom scenes` draws them."""

import os
import shutil
from pathlib import Path

from tagloom.data.scenes import SceneSettings, draw_scene, write_scenes

DIFFERENT = 200  # drawn; more images are copies of these
PHOTOS = "TAGLOOM_BENCH_PHOTOS"


def image_folder(target: Path, count: int) -> Path:
    """Fill a new folder with so many JPEGs of 256 px: the photographs of TAGLOOM_BENCH_PHOTOS, or else drawn scenes."""
    target.mkdir()
    if source := os.environ.get(PHOTOS):
        found = sorted(path for path in Path(source).iterdir() if path.suffix == ".jpg")[:count]
    else:
        found = []
        for number in range(min(count, DIFFERENT)):
            image, *_ = draw_scene(seed=0, index=number, settings=SceneSettings(size=256))
            found.append(target / f"{number:05}.jpg")
            image.save(found[-1], quality=90)
    for number in range(count):
        path = target / f"{number:05}.jpg"
        if not path.exists():
            shutil.copyfile(found[number % len(found)], path)
    return target


def table_of_scenes(folder: Path, images: int) -> Path:
    """Draw a labelled data set, and give its training table."""
    write_scenes(folder, train=images, val=1, test=1, settings=SceneSettings(size=256))
    return folder / "train.csv"
