"""What README and docs tell a reader to type works: commands and Python blocks run here, on small drawn scenes.

Everything runs in one folder that has the names the docs use. Trainings are made small by appended settings (`SMALL`);
nothing else of a command changes. A command that cannot run here is parsed by the real command line, and its recipe and
settings are checked; `ONLY_PARSED` says which, and why.
"""

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from documents import PAGES, ROOT, Block, arguments, blocks, inline_code, page_name, shell_lines

ONLY_PARSED = {
    r"coco-full/|coco-shards": "the data set is not part of the repository",
    r"coco/|coco-mini/|VOCdevkit|NUS-WIDE|nus/|open-images/|imagenet/": "the data set is not part of the repository",
    r"https://|s3://|runs/remote": "the address is an example; tests/data/packed reads from servers on this machine",
    r"webdataset": "wants tars; tests/data/packed/test_webdataset.py makes some",
    r"--engine ray": "wants a Ray cluster; tests/predict and tests/training/distill run Ray on this machine",
    r"--processes": "starts processes; tests/training/ranks trains, kills and tags in several",
    r"tagloom serve": "runs until it is stopped; tests/serve starts real servers, and types the page's curl commands",
    r"tagloom review|review/labels": "waits for answers; tests/serve/test_review_page.py gives them",
    r"\bpush\b|hf-hub:me/": "needs the hub; tests/export/test_publish.py runs one on this machine",
    r"runs/ready|runs/any": "the ready taggers were trained on COCO",
    r"--int8": "a tiny network is no faster in eight bits, so it would be refused; tests/export runs it",
    r"--embed": "wants exiftool; tests/predict/test_keywords.py runs it where it is installed",
}
"""Commands that are parsed and checked but not run, by a pattern in them, and the reason."""

SMALL = {
    "backbone.name": "test_efficientnet",
    "backbone.weights": "none",
    "preprocess.size": 32,
    "data.holdout": 0.25,
    "training.epochs": 1,
    "training.batch_size": 16,
}
"""Settings that make any training of the docs take seconds: a tiny network with random weights, and one epoch."""

MADE_SMALL = {
    "distill": ["--k", "2", "--teacher-epochs", "1"],
    "heads": ["--backbone", "test_efficientnet", "--size", "64"],
    "scenes": ["--images", "48"],
    "compare": ["--resamples", "20"],
    "study": ["--seeds", "1"],
}
"""Further arguments that are appended to a verb; of an option given twice the last one counts."""

FEWER: dict[str, dict[str, Any]] = {
    "train": {"epochs": None},
    "distill": {"epochs": None, "k": 2, "teacher_epochs": 1},
    "study": {"seeds": 1},
}
"""The same for Python functions."""

PREPARED = {
    "scenes": "scenes scenes --images 48",
    "runs/first": "train photos/train.csv --val photos/val.csv --recipe quick --out runs/first",
    "runs/student": "distill photos/train.csv --recipe quick-gap --out runs/student",
    "runs/probe": "train photos/train.csv --recipe quick-gap --out runs/probe",
    "runs/decoder": "train photos/train.csv --out runs/decoder",
    "runs/words": "train photos/train.csv --val photos/val.csv --recipe quick-words --out runs/words",
    "runs/hsq": "train photos/train.csv --val photos/val.csv --set head.name=hsq --out runs/hsq",
}
"""How to make what a page uses and another page makes."""

WORDS = "surfboard wedding golden retriever"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the names that the docs use."""
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    import numpy as np
    from PIL import Image

    from tagloom.data import load_table
    from tagloom.data.scenes import scene_classes, write_scenes

    folder = tmp_path_factory.mktemp("docs")
    write_scenes(folder / "photos", train=48, val=12, test=12)
    first, second = (load_table(folder / "photos" / "val.csv").path(row) for row in (0, 1))
    (folder / "more").mkdir()
    for name, source in {"photo.jpg": first, "a.jpg": first, "b.jpg": second, "more/c.jpg": second}.items():
        Image.open(source).convert("RGB").save(folder / name)
    _write_library(folder / "library", first, second)
    (folder / "labels.txt").write_text("surfboard\nwedding\nboat\n", encoding="utf-8")
    (folder / "unseen.txt").write_text("anchor\ntree\n", encoding="utf-8")
    rng = np.random.default_rng(0)
    words = [*scene_classes(), *WORDS.split()]
    lines = [f"{word} {' '.join(f'{value:.3f}' for value in rng.standard_normal(8))}" for word in words]
    (folder / "glove.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def _write_library(library: Path, *photos: Path) -> None:
    """Make a photo library: twelve photos with keywords of their owner."""
    from tagloom.xmp.editing import EMPTY, with_review

    library.mkdir()
    for number in range(12):
        photo = library / f"{number}.png"
        shutil.copy(photos[number % len(photos)], photo)
        keywords = ("Animals|Dog", "sea") if number % 2 else ("Animals|Cat", "People|Anna")
        photo.with_name(f"{photo.name}.xmp").write_bytes(with_review(EMPTY, photo.name, keywords, "2026-05-01"))


@pytest.fixture
def reader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> "Reader":
    """Somebody who types what a page says, in that folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TAGLOOM_CACHE", str(folder / "cache"))
    return Reader(monkeypatch)


class Reader:
    """Types commands and Python blocks, in small."""

    written_by: ClassVar[dict[str, list[str]]] = {}
    """Which command wrote a folder last; all pages share the folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import timm

        import tagloom
        from tagloom.training import machine

        monkeypatch.setattr(machine, "SECONDS", 0.02)
        create = timm.create_model
        monkeypatch.setattr(
            timm, "create_model", lambda *given, **options: create(*given, **{**options, "pretrained": False})
        )
        self.small = {**SMALL, "words.source": str(Path("glove.txt").resolve())}
        self.names: dict[str, Any] = _given_names()
        for name in ("train", "distill", "study"):
            monkeypatch.setattr(tagloom, name, self._trains_small(name, getattr(tagloom, name)), raising=False)

    def types(self, words: list[str]) -> None:
        """Run one command, after what it needs. A training that was the last to write its folder is not run again."""
        from typer.testing import CliRunner

        from tagloom.cli import app

        target = _target(words)
        self.prepares(" ".join(words), but="" if "--resume" in words else target)
        if target and self.written_by.get(target) == words and Path(target).exists():
            return
        if "--resume" in words:
            (Path(target) / "tagger.json").unlink(missing_ok=True)  # as if it had been stopped before its end
        elif target:
            shutil.rmtree(target, ignore_errors=True)
            Path(target).unlink(missing_ok=True)
            self.written_by[target] = words
        result = CliRunner().invoke(app, [*words, *self._to_be_small(words)])
        assert result.exit_code == 0, f"tagloom {' '.join(words)}\n{result.output}\n{result.exception!r}"

    def _to_be_small(self, words: list[str]) -> list[str]:
        if "--resume" in words:
            return []
        settings = self.small if words[0] in ("train", "distill", "study") else {}
        return [*MADE_SMALL.get(words[0], []), *(f"--set={name}={value}" for name, value in settings.items())]

    def prepares(self, text: str, but: str = "") -> None:
        """Make what a step uses, where an earlier step has not made it."""
        for name, command in PREPARED.items():
            if name != but and re.search(rf"\b{name}\b", text) and not Path(name).exists():
                self.types(command.split())

    def runs(self, block: Block) -> None:
        """Run a Python block, with the names that the blocks before it left."""
        made = set(re.findall(r'out="([^"]+)"', block.text))
        used = [name for name in re.findall(r"(?:runs/\w+|scenes)", block.text) if name not in made]
        self.prepares(" ".join(used))
        exec(compile(block.text, f"line {block.line}", "exec"), self.names)  # noqa: S102, these are our own pages

    def _trains_small(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def small(*given: Any, **options: Any) -> Any:
            shutil.rmtree(options["out"], ignore_errors=True)
            self.written_by.pop(options["out"], None)
            return function(*given, **{**options, **FEWER[name], "settings": self.small, "show_progress": False})

        return small


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "api"], ids=page_name)
def test_what_a_page_says_runs(page: Path, request: pytest.FixtureRequest) -> None:
    steps = [step for block in blocks(page) for step in _steps(block)]
    if not steps:
        pytest.skip("nothing to run on this page")
    reader = request.getfixturevalue("reader")
    for step in steps:
        if isinstance(step, Block):
            reader.runs(step)
        else:
            reader.types(step)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_of_a_page_is_understood(page: Path) -> None:
    """Also those that are not run: verbs, options, recipes and settings exist."""
    pytest.importorskip("typer")
    for command in _commands(page):
        words = arguments(command)
        assert words is not None
        _parsed(words)
        _check_recipe(words)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_within_prose_name_verbs_and_options_that_exist(page: Path) -> None:
    for code in inline_code(page):
        if re.match(r"tagloom [a-z]+", code):
            words = code.split()[1:]
            known = _options(words)
            assert {word.split("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}, code
            assert not _missing_recipes(words), code


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_scripts_make_targets_and_extras_of_a_page_exist(page: Path) -> None:
    import tomllib

    made = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    lines = [line for block in blocks(page) if block.language == "bash" for line in shell_lines(block)]
    for line in [*lines, *inline_code(page)]:
        if line.startswith("python "):
            assert (ROOT / line.split()[1]).is_file(), line
        if line.startswith("make "):
            assert set(line.split()[1:]) <= set(made), line
        for found in re.findall(r"pip install '(?:\.|tagloom)\[([a-z,-]+)\]'", line):
            assert set(found.split(",")) <= set(extras), line


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    roots = (ROOT, ROOT / "src" / "tagloom")
    for code in inline_code(page):
        for name in re.findall(r"(?:pytest )?((?:[\w.-]+/)+(?:[\w-]+\.(?:py|txt))?)(?=$| )", code):
            known = re.match(
                r"(?:tests|studies|bench|src|recipe|models|training|labels|metrics|data|cli|explain)/", name
            )
            if known and not any(sign in name for sign in "<…"):
                assert any((root / name).exists() for root in roots), f"{page_name(page)} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_yaml_of_a_page_is_a_recipe(page: Path) -> None:
    from tagloom.recipe import load_recipe, recipe_from_dict
    from tagloom.recipe.filling import merge_settings

    for block in blocks(page):
        if block.language == "yaml":
            content = yaml.safe_load(block.text)
            base = load_recipe(content.pop("base", "quick")).to_dict()
            recipe_from_dict(merge_settings(base, content))


def test_what_is_only_parsed_is_needed_and_rare() -> None:
    commands = [command for page in PAGES for command in _commands(page)]
    parsed = [command for command in commands if _reason(command)]
    for pattern in ONLY_PARSED:
        assert any(re.search(pattern, command) for command in parsed), f"no command needs {pattern!r} any more"
    assert len(parsed) < len(commands) / 2


def _steps(block: Block) -> Iterator[list[str] | Block]:
    """What of a block can run: the words of its commands, or the block itself if it is Python."""
    if block.language == "python":
        yield block
    elif block.language == "bash":
        for command in shell_lines(block):
            words = arguments(command)
            if words is not None and not _reason(command):
                yield words


def _commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page) if block.language == "bash" for line in shell_lines(block)]
    return [line for line in lines if arguments(line) is not None]


def _reason(command: str) -> str:
    return next((reason for pattern, reason in ONLY_PARSED.items() if re.search(pattern, command)), "")


def _verb(words: list[str]) -> tuple[Any, list[str]]:
    """Find the verb of a command, and what follows it."""
    import typer

    from tagloom.cli import app

    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    assert not hasattr(command, "commands") or not rest or rest[0].startswith("-"), f"no such verb: {' '.join(words)}"
    return command, rest


def _options(words: list[str]) -> set[str]:
    command, _ = _verb(words)
    return {option for parameter in command.params for option in parameter.opts}


def _parsed(words: list[str]) -> None:
    """Let the real command line parse a command, without running it; it raises what it does not know."""
    command, rest = _verb(words)
    command.make_context(words[0], rest, resilient_parsing=True)


def _check_recipe(words: list[str]) -> None:
    """Check the recipe of a command, and that its settings can be set."""
    from tagloom.recipe import load_recipe, override, recipe_names

    if words[0] == "study":
        for name in itertools.takewhile(lambda word: not word.startswith("-"), words[1:]):
            assert name in recipe_names() or "/" in name or name.endswith(".yaml"), words
    if words[0] not in ("train", "distill"):
        return
    assert not _missing_recipes(words), words
    name = _value(words, "--recipe") or "quick"
    settings = [value for option, value in itertools.pairwise(words) if option == "--set"]
    override(load_recipe("quick" if name.endswith(".yaml") else name), settings)


def _missing_recipes(words: list[str]) -> set[str]:
    from tagloom.recipe import recipe_names

    named = {value for option, value in itertools.pairwise(words) if option == "--recipe"}
    return {name for name in named if not name.endswith(".yaml") and "…" not in name} - set(recipe_names())


def _value(words: list[str], option: str) -> str | None:
    return next((value for name, value in itertools.pairwise(words) if name == option), None)


def _target(words: list[str]) -> str:
    """Name what a command writes and would not write over, or give an empty name."""
    if words[0] in ("train", "distill", "export"):
        return _value(words, "--out") or {"train": "runs/tagger", "distill": "runs/student"}[words[0]]
    if words[0] == "scenes":
        return words[1]
    return words[3] if words[:2] == ["recipes", "copy"] else ""


def _given_names() -> dict[str, Any]:
    """What Python blocks take as given: tensors, a model and a picture of the reader's own."""
    import numpy as np
    import timm
    import torch
    from PIL import Image

    rng = np.random.default_rng(0)
    return {
        "timm_model": timm.create_model("test_resnet"),
        "feature_map": torch.zeros(2, 2048, 7, 7),
        "last_map": torch.zeros(2, 512, 7, 7),
        "second_stage": torch.zeros(2, 64, 28, 28),
        "fourth_stage": torch.zeros(2, 256, 14, 14),
        "targets": torch.zeros(2, 9600),
        "scores": rng.random((6, 3)),
        "labels": np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        "pil_image": Image.new("RGB", (40, 30)),
    }
