"""A real browser for tests of pages: Debian's chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SCREENSHOTS = os.environ.get("TAGLOOM_SCREENSHOTS")
"""A folder to write screenshots to; none are written without it."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, or skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        browser = started.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


def screenshot(page: Any, name: str) -> None:
    """Write down what the page looks like, if somebody wants to see it."""
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


DROP = """(files) => {
  const data = new DataTransfer();
  for (const [name, text] of files) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    data.items.add(new File([bytes], name));
  }
  for (const kind of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
  }
}"""

PASTE = """([name, text]) => {
  const data = new DataTransfer();
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  data.items.add(new File([bytes], name, { type: "image/jpeg" }));
  document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""

HEAT = """() => {
  const canvas = document.getElementById("heat");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return canvas.classList.contains("on") ? data.reduce((sum, value, place) => (sum * 31 + value + place) % 1e9, 7) : 0;
}"""
"""A number for what the heat map shows; 0 if none is shown."""
