"""Run notebooks: `make notebooks` stores what they print, and a test runs them to see that they work.

A notebook runs in an empty folder of its own, so that it leaves nothing behind next to itself.
"""

import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

SECONDS = 300
"""Longest time for one cell."""


def run_notebook(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook in a folder and return it with its outputs; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        iopub_timeout=60,  # outputs of a busy machine come late
        raise_on_iopub_timeout=True,
        kernel_name="python3",
        resources={"metadata": {"path": folder}},
    )
    client.execute()
    return notebook


def without_noise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove what differs from run to run or machine to machine: times, counters, versions. Shrink images."""
    notebook.metadata = {"language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = None
                if "image/png" in output.get("data", {}):
                    output.data.pop("image/jpeg", None)
                    output.data["image/png"] = _smaller(output.data["image/png"])
                if "text" in output:
                    output.text = re.sub(r"/tmp/\S+?/(?=photos|runs)", "", output.text)  # noqa: S108
    return notebook


def _smaller(png: str) -> str:
    """Store an image in 128 colours, which for drawings looks the same in a quarter of the bytes."""
    packed = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.thumbnail((1100, 1100))
    image.quantize(128).save(packed, "PNG", optimize=True)
    return base64.b64encode(packed.getvalue()).decode()


def main() -> None:
    """Run the notebooks that are named and store their outputs in them."""
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TAGLOOM_CACHE"] = f"{folder}/cache"  # so that the outputs do not depend on what ran before
            notebook = run_notebook(Path(name), Path(folder))
        nbformat.write(without_noise(notebook), name)
        print(f"ran {name}")


if __name__ == "__main__":
    main()
