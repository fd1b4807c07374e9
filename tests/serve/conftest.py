"""Taggers and pictures that the tests of the server share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve: pip install 'tagloom[serve]'")
sys.path.insert(0, str(Path(__file__).parent))

from serving import Client, encoded, serving

from tagloom.predict.tagger import Tagger, load


@pytest.fixture(scope="session")
def tiny(untrained_run: Path) -> Tagger:
    """A tagger of five labels that takes a millisecond."""
    return load(untrained_run)


@pytest.fixture(scope="session")
def worded(word_run: Path) -> Tagger:
    """A tagger that takes any label."""
    return load(word_run)


@pytest.fixture(scope="session")
def client(tiny: Tagger, worded: Tagger) -> Iterator[Client]:
    """A server with both taggers, and the usual limits."""
    with serving({"tiny": tiny, "words": worded}) as client:
        yield client


@pytest.fixture(scope="session")
def jpeg() -> bytes:
    return encoded(0)


@pytest.fixture(scope="session")
def jpegs() -> list[bytes]:
    return [encoded(seed) for seed in range(6)]
