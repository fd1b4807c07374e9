"""Writing XMP into images through an installed exiftool, which keeps the image as it was under `NAME_original`."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tagloom.errors import DataError

NAME = "exiftool"
MAX_SECONDS = 120
MAX_LINE = 16_000  # characters of a command line; Windows takes 32,767
_MARK = "tagloom: end of image"
_LAST = -1
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
        """Replace the XMP of one image as `write_all` does.

        Raises:
            DataError: If exiftool refuses, with its words. The image is then unchanged.
        """
        if error := self.write_all([(photo, xmp)])[0]:
            raise DataError(error)

    def write_all(self, changes: Sequence[tuple[Path, bytes]]) -> list[str]:
        """Replace the XMP of images, or with nothing remove it. Each image as it was stays next to it, if not already.

        Starting exiftool takes longer than writing, so it is started once for many images.

        Returns:
            For each image what is wrong, or nothing. An image with an error is unchanged.
        """
        errors = [_refusal(photo) for photo, _ in changes]
        with tempfile.TemporaryDirectory(prefix="tagloom-") as folder:
            commands: list[tuple[int, list[str]]] = []
            for number, (photo, xmp) in enumerate(changes):
                source = Path(folder, f"{number}.xmp")
                source.write_bytes(xmp)
                if not errors[number]:
                    commands.append((number, _command(number, photo, source if xmp else None)))
            for batch in _batches(commands):
                said = self._run([argument for _, command in batch for argument in command], len(batch))
                for number, _ in batch:
                    errors[number] = _outcome(changes[number][0], said.get(number, said[_LAST]))
        return errors

    def _run(self, arguments: list[str], photos: int) -> dict[int, str]:
        """Run exiftool. Give what it said of each photo that it has finished, and under `_LAST` why it did no more."""
        # In a group of its own, as Ctrl-C is for us: an image that is being written is finished.
        with subprocess.Popen(
            [self._program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        ) as process:
            try:
                stderr = process.communicate(timeout=MAX_SECONDS + photos)[1]
                ended = f"it ended with code {process.returncode}"
            except subprocess.TimeoutExpired:
                process.kill()
                stderr = process.communicate()[1]
                ended = f"it did not finish within {MAX_SECONDS + photos} seconds"
        found: dict[int, str] = {}
        lines: list[str] = []
        for line in stderr.decode("utf-8", "replace").splitlines():
            if marked := re.fullmatch(rf"{_MARK} (\d+)", line):
                found[int(marked[1])] = "\n".join(lines)
                lines = []
            else:
                lines.append(line)
        return found | {_LAST: "\n".join([*lines, f"Error: {ended}"])}


def _refusal(photo: Path) -> str:
    """Say why exiftool is not asked at all; nothing if it is."""
    if photo.suffix.lower() in WRITABLE:
        return ""
    return f"{photo}: {photo.suffix} files hold no XMP that exiftool writes. Leave out --embed for it."


def _command(number: int, photo: Path, source: Path | None) -> list[str]:
    """Give the arguments that change one photo. What exiftool says of it ends with a line that has its number."""
    change = "-XMP=" if source is None else f"-XMP<={source}"
    # By its whole path, so that no name is taken for an option.
    return ["-q", "-m", change, "-echo4", f"{_MARK} {number}", str(photo.absolute()), "-execute"]


def _batches(commands: list[tuple[int, list[str]]]) -> Iterator[list[tuple[int, list[str]]]]:
    """Split commands so that a system can start a program with so long a line."""
    batch: list[tuple[int, list[str]]] = []
    length = 0
    for number, command in commands:
        size = sum(map(len, command))
        if batch and length + size > MAX_LINE:
            yield batch
            batch, length = [], 0
        batch.append((number, command))
        length += size
    if batch:
        yield batch


def _outcome(photo: Path, said: str) -> str:
    """Turn what exiftool said of a photo into an error, or nothing. Warnings are none."""
    error = next((line for line in said.splitlines() if line.startswith("Error")), None)
    return "" if error is None else f"{photo}: exiftool could not write it ({error})."
