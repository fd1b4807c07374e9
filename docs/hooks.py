"""What MkDocs alone does not do: pages that live outside docs/, and notebooks as pages. Run by `mkdocs build`."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

# Files of the repository that are pages of the site, under the name they have there.
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "src/tagloom/ready/README.md": "ready.md",
}
_TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live outside docs/, and turn notebooks into Markdown."""
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        content = json.loads(notebook.content_string)
        files.remove(notebook)
        page = notebook.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=notebook_markdown(content)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files, which work on a code host, to the pages that these files are on the site."""
    up = "../" * (page.file.src_uri.count("/") + 1)
    for source, target in OUTSIDE.items():
        markdown = markdown.replace(f"]({up}{source}", f"]({up[3:]}{target}")
    return markdown.replace(".ipynb)", ".md)")


def notebook_markdown(notebook: dict[str, Any]) -> str:
    """Write a notebook as Markdown: text as it is, code as code, and the outputs it was saved with."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts += [f"```python\n{source}\n```", *_outputs(cell["outputs"])]
    return "\n\n".join(parts) + "\n"


def _outputs(outputs: list[dict[str, Any]]) -> Iterator[str]:
    """Give the outputs of a cell: images, tables, and everything else as text, neighbours joined."""
    for is_text, group in groupby(outputs, key=lambda output: _shown(output) is None):
        if is_text:
            lines = [_text(output) for output in group]
            if text := "\n".join(line for line in lines if line):
                yield f"```{{.text .output}}\n{text}\n```"
        else:
            yield from (_shown(output) or "" for output in group)


def _shown(output: dict[str, Any]) -> str | None:
    """Give an output that is an image or a table, or None for text."""
    data = output.get("data", {})
    if "image/png" in data:
        png = "".join(data["image/png"]).strip()
        return f'<img alt="Output of the cell above" src="data:image/png;base64,{png}">'
    if "<table" in (table := "".join(data.get("text/html", ""))):
        return f'<div class="output" markdown="0">\n{table}\n</div>'
    return None


def _text(output: dict[str, Any]) -> str:
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return _TERMINAL_COLOURS.sub("", "".join(text)).rstrip()
