"""Writing XMP into images through an installed exiftool, which keeps the image as it was under `NAME_original`."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tagloom.errors import DataError
from tagloom.wording import first_line

NAME = "exiftool"
MAX_SECONDS = 120
WRITABLE = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".mpo"})


class ExifTool:
    """An installed exiftool.

    Raises:
        DataError: If none is installed.
    """

    def __init__(self) -> None:
        found = shutil.which(NAME)
        if found is None:
            raise DataError(
                "writing keywords into photos needs exiftool, which is not installed. Install it (on Debian and "
                "Ubuntu: apt install libimage-exiftool-perl), or leave out --embed to write sidecars."
            )
        self._program = found

    def write_xmp(self, photo: Path, xmp: bytes) -> None:
        """Replace the XMP of an image, or with nothing remove it. The image as it was stays next to it, if not already.

        Raises:
            DataError: If exiftool refuses, with its words. The image is then unchanged.
        """
        if photo.suffix.lower() not in WRITABLE:
            raise DataError(
                f"{photo}: {photo.suffix} files hold no XMP that exiftool writes. Leave out --embed for it."
            )
        with tempfile.TemporaryDirectory(prefix="tagloom-") as folder:
            source = Path(folder, "photo.xmp")
            source.write_bytes(xmp)
            change = f"-XMP<={source}" if xmp else "-XMP="
            # By its whole path, so that no name is taken for an option.
            command = [self._program, "-q", "-m", change, str(photo.absolute())]
            try:
                done = subprocess.run(command, capture_output=True, timeout=MAX_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired, ValueError) as error:
                raise DataError(f"{photo}: exiftool did not finish ({first_line(error)}).") from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            raise DataError(f"{photo}: exiftool could not write it ({said or f'code {done.returncode}'}).")
