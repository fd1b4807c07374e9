"""The documentation builds without a warning, and its pages need nothing from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(needed)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return folder


def test_the_site_builds_strictly_with_all_its_pages(site: Path) -> None:
    for page in ("index", "training", "papers/cpsd", "api/training", "notebooks/own-data", "contributing", "ready"):
        assert (site / f"{page}.html").is_file(), page
    assert "tagloom.train" in (site / "api" / "training.html").read_text(encoding="utf-8")


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon|preload)")[^>]*(?:src|href)="?(https?:)?//'
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", style.read_text(encoding="utf-8")), style
