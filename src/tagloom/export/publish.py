"""Putting a tagger on the Hugging Face hub, where `hf-hub:owner/name` loads it again."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from tagloom.errors import MissingExtraError, TaggerError
from tagloom.export.package import write_package
from tagloom.files import is_file
from tagloom.hub import HUB_PREFIX, split_hub_name
from tagloom.tagger.spec import CARD_FILE, ONNX_FILE, SPEC_FILE, VOCABULARY_FILE, WEIGHTS_FILE, WORDS_FILE, read_spec
from tagloom.wording import first_line

TAGGER_FILES = (SPEC_FILE, CARD_FILE, ONNX_FILE, WORDS_FILE, VOCABULARY_FILE, WEIGHTS_FILE)
"""All that a tagger consists of. Nothing else of a run's folder is ever sent: not its plan, logs or checkpoints."""


def push_tagger(run: Path, name: str, *, public: bool = False, weights: bool = False) -> str:
    """Send a tagger to the hub in one commit: what `tagloom export` writes, and torch's weights if they are asked for.

    Args:
        run: The tagger folder.
        name: The repository, owner/name. It is made if it does not exist.
        public: Whether a new repository can be seen by everybody. One that exists stays as it is.
        weights: Whether to send `model.safetensors` as well, for torch.

    Returns:
        The name that loads exactly this tagger: hf-hub:owner/name@commit.

    Raises:
        TaggerError: If the folder is not a finished tagger, or if the hub does not take it.
    """
    if find_spec("huggingface_hub") is None:
        raise MissingExtraError("sending a tagger to the hub", "train")
    repository = _repository(name)
    read_spec(run)  # what is no tagger is refused before anything is written or sent
    if weights and not is_file(run / WEIGHTS_FILE):
        raise TaggerError(f"{run}: has no {WEIGHTS_FILE}. Leave out --weights, or push the run that it comes from.")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "tagger"
        write_package(run, folder)  # absolute paths of this machine are cut short there
        files = {path.name: path for path in folder.iterdir() if path.name in TAGGER_FILES}
        if weights:
            files[WEIGHTS_FILE] = run / WEIGHTS_FILE
        return f"{HUB_PREFIX}{repository}@{_send(files, repository, name, public)}"


def _send(files: dict[str, Path], repository: str, name: str, public: bool) -> str:
    """Make the repository if it is new, add the files in one commit, and give that commit."""
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi()
    try:
        api.create_repo(repository, private=not public, exist_ok=True, repo_type="model")
        commit = api.create_commit(
            repository,
            operations=[CommitOperationAdd(path, str(file)) for path, file in sorted(files.items())],
            commit_message="A tagger made with Tagloom",
            repo_type="model",
        )
    except Exception as error:  # of the hub's client, of its transport, or of the system
        raise TaggerError(
            f"{name}: the hub did not take the tagger ({type(error).__name__}: {first_line(error)}). Log in with "
            "'hf auth login', and check that you may write there."
        ) from error
    return str(commit.oid)


def _repository(name: str) -> str:
    given = name if name.startswith(HUB_PREFIX) else f"{HUB_PREFIX}{name}"
    repository, revision = split_hub_name(given)
    if revision is not None or "/" not in repository:
        raise TaggerError(f"{name}: write the repository as owner/name.")
    return repository
