"""Recipes are plain data: what ships is valid, what is misspelt gets a suggestion, what cannot work is refused."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tagloom.errors import RecipeError
from tagloom.recipe import Recipe, for_task, load_recipe, override, recipe_from_dict, recipe_names, recipe_text
from tagloom.recipe.names import HEADS, LOSSES, resolve
from tagloom.recipe.yaml_text import read_yaml


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads_and_comes_back_from_its_own_yaml(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.purpose
    assert recipe_from_dict(read_yaml(recipe.to_yaml(), name)) == recipe
    assert recipe_from_dict(recipe.to_dict()) == recipe


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_is_headed_by_the_command_that_runs_it(name):
    head = "\n".join(line for line in recipe_text(name).splitlines() if line.startswith("#"))
    assert f"--recipe {name}" in head


@pytest.mark.parametrize("name", recipe_names())
def test_the_options_of_every_shipped_recipe_are_known_to_its_head_and_loss(name):
    pytest.importorskip("torch")
    from tagloom.training.plan import check_options

    check_options(load_recipe(name))


def test_quick_is_there_and_trains_from_cached_features():
    assert load_recipe("quick").from_cache


def test_quick_ml_decoder_is_quick_but_for_its_queries():
    quick = override(load_recipe("quick"), ["head.options.readout.groups=20", "name=quick-ml-decoder"])
    assert dataclasses.replace(load_recipe("quick-ml-decoder"), purpose=quick.purpose) == quick


@pytest.mark.parametrize("entry", [*HEADS.values(), *LOSSES.values()])
def test_every_name_of_a_head_or_loss_leads_to_one_whose_docstring_says_what_it_is_for(entry):
    pytest.importorskip("torch")
    purpose = resolve(entry).__doc__.partition("\n")[0]
    assert purpose.endswith(".")
    assert 20 < len(purpose) <= 120


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("trainig: {epochs: 3}", "training"),
        ("training: {epoch: 3}", "epochs"),
        ("head: {name: gpa}", "gap"),
        ("loss: {name: assymetric}", "asymmetric"),
        ("optimiser: {name: adamvw}", "adamw"),
        ("optimiser: {schedule: onecycle}", "one-cycle"),
        ("optimizer: {name: sgd}", "optimiser"),
        ("task: sinlge", "single"),
        ("thresholds: {aim: precison}", "precision"),
        ("training: {metric: map}", "mAP"),
        ("training: {select: bset}", "best"),
        ("training: {precision: float23}", "float32"),
        ("preprocess: {fit: squeze}", "squeeze"),
        ("augment: {cut_out: 0.5}", "cutout"),
        ("backbone: {weight: hub}", "weights"),
        ("data: {hold_out: 0.1}", "holdout"),
        ("calibration: {kind: perclass}", "per-class"),
    ],
)
def test_a_misspelt_name_anywhere_gets_the_right_one(text, suggestion):
    with pytest.raises(RecipeError, match=f"did you mean '{suggestion}'"):
        recipe_from_dict(read_yaml(text, "mine.yaml"), "mine.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {epochs: 0}", "training.epochs is 0; it must be a whole number from 1"),
        ("training: {epochs: 2.5}", "expected a whole number"),
        ("training: {epochs: many}", "expected a whole number, found 'many'"),
        ("training: {ema: 1}", "training.ema is 1.0"),
        ("training: {seed: -1}", "training.seed is -1"),
        ("training: {cache_features: 1}", "expected true or false"),
        ("training: [1]", "found list"),
        ("optimiser: {learning_rate: -1}", "learning_rate is -1.0"),
        ("optimiser: {learning_rate: .nan}", "learning_rate is nan"),
        ("optimiser: {learning_rate: .inf}", "learning_rate is inf"),
        ("optimiser: {learning_rate: fast}", "expected a number, found 'fast'"),
        ("data: {holdout: 0.9}", "data.holdout is 0.9"),
        ("data: {max_broken: 5}", "data.max_broken is 5.0"),
        ("thresholds: {value: 2}", "thresholds.value is 2.0"),
        ("preprocess: {size: 1000000}", "it must be a whole number from 32 to 4096"),
        ("augment: {crop_scale: [0.5]}", "expected a list of 2 values"),
        ("head: {options: [1]}", "expected 'name: value' lines"),
        ("loss: {name: cross-entropy}", "task: single"),
        ("training: {metric: top1}", "task: single"),
        ("task: single\nloss: {name: cross-entropy}\ncalibration: {kind: per-class}", "use 'shared'"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_the_reason(text, message):
    with pytest.raises(RecipeError) as caught:
        recipe_from_dict(read_yaml(text, "mine.yaml"), "mine.yaml")
    assert message in str(caught.value)


def test_a_number_with_an_exponent_and_no_dot_is_a_number_everywhere():
    content = read_yaml("optimiser: {learning_rate: 1e-3}\nhead: {options: {dropout: 1e-1}}", "mine.yaml")
    recipe = recipe_from_dict(content)
    assert recipe.optimiser.learning_rate == 0.001
    assert recipe.head.options == {"dropout": 0.1}


def test_a_list_in_yaml_becomes_the_pair_that_the_recipe_holds():
    recipe = recipe_from_dict(read_yaml("augment: {crop_scale: [0.5, 1]}\nbackbone: {frozen: false}", "mine.yaml"))
    assert recipe.augment.crop_scale == (0.5, 1.0)
    assert recipe_from_dict(read_yaml(recipe.to_yaml(), "mine.yaml")) == recipe


def test_single_label_recipes_may_use_what_needs_one_label():
    content = {"task": "single", "loss": {"name": "cross-entropy"}, "training": {"metric": "top1"}}
    assert recipe_from_dict(content).loss.name == "cross-entropy"


def test_a_recipe_is_read_from_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("training: {epochs: 7}\n")
    assert load_recipe(str(path)).training.epochs == 7


def test_errors_in_a_file_name_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("training: {epochs: 7, epochs: 8}\n")
    with pytest.raises(RecipeError, match=r"mine\.yaml, line 1: 'epochs' is given twice"):
        load_recipe(str(path))
    path.write_text("training: {epchs: 7}\n")
    with pytest.raises(RecipeError, match=r"mine\.yaml: training: unknown setting 'epchs'"):
        load_recipe(str(path))


def test_an_unknown_recipe_gets_a_suggestion_and_the_list():
    with pytest.raises(RecipeError, match="did you mean 'quick'"):
        load_recipe("quik")
    with pytest.raises(RecipeError, match="did you mean 'quick'"):
        recipe_text("quik")


@pytest.mark.parametrize("name", ["nowhere.yaml", "a\0b.yaml", "a\0b", ".", "/"])
def test_a_path_that_holds_no_recipe_is_refused(name):
    with pytest.raises(RecipeError):
        load_recipe(name)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01" * 10)
    with pytest.raises(RecipeError, match="cannot be read as a recipe"):
        load_recipe(str(path))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device that never ends")
def test_a_file_that_never_ends_is_read_no_further_than_the_cap(tmp_path):
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    with pytest.raises(RecipeError, match="too many for a recipe"):
        load_recipe(str(tmp_path / "endless.yaml"))


def test_override_changes_fields_and_leaves_the_others():
    recipe = override(Recipe(), ["training.epochs=3", "optimiser.learning_rate=1e-2", "head.options.dropout=0.1"])
    assert recipe.training == dataclasses.replace(Recipe().training, epochs=3)
    assert recipe.optimiser.learning_rate == 0.01
    assert recipe.head.options == {"dropout": 0.1}
    assert recipe.loss == Recipe().loss


def test_override_reads_values_as_yaml():
    recipe = override(Recipe(), ["augment.crop_scale=[0.5, 1.0]", "backbone.frozen=false", "name=a = b"])
    assert recipe.augment.crop_scale == (0.5, 1.0)
    assert recipe.backbone.frozen is False
    assert recipe.name == "a = b"


def test_later_settings_win():
    assert override(Recipe(), ["training.epochs=3", "training.epochs=4"]).training.epochs == 4


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.epochs", "write it as part.field=value"),
        ("trainin.epochs=3", "did you mean 'training'"),
        ("training.epoch=3", "did you mean 'epochs'"),
        ("training.epochs.more=3", "unknown part 'epochs'"),
        ("distill.k=3", "has no distill section. The options of the command set it: tagloom distill --k 3"),
        ("training=3", "expected a list of 'name: value' lines"),
        ("head.name=gpa", "did you mean 'gap'"),
        ("training.epochs=[1", "not valid YAML"),
        ("=3", "unknown setting ''"),
    ],
)
def test_a_setting_that_does_not_fit_says_so(setting, message):
    with pytest.raises(RecipeError) as caught:
        override(Recipe(), [setting])
    assert message in str(caught.value)


def test_reading_recipes_imports_no_torch():
    script = "import sys, tagloom.recipe as r; r.load_recipe('quick'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_naming_another_head_drops_the_options_of_the_one_before():
    quick = load_recipe("quick")
    assert quick.head.options
    changed = override(quick, ["head.name=gap", "head.options.dropout=0.2"])
    assert changed.head.options == {"dropout": 0.2}
    assert override(quick, [f"head.name={quick.head.name}"]).head.options == quick.head.options


@pytest.mark.parametrize(
    ("settings", "readout"),
    [
        (["head.options.readout.groups=20"], {"groups": 20}),
        (["head.options.readout=shared"], "shared"),
        (["head.options.readout=shared", "head.options.readout.groups=20"], {"name": "shared", "groups": 20}),
        (["head.options.readout.groups=20", "head.options.readout=shared"], {"name": "shared", "groups": 20}),
        (["head.options.readout.groups=20", "head.options.readout={name: shared}"], "shared"),
        (["head.options.readout={groups: 20}", "head.options.readout.name=shared"], {"name": "shared", "groups": 20}),
        (["head.options.groups=20"], {"groups": 20}),
        (["head.options.groups=20", "head.options.readout.groups=30"], {"groups": 30}),
        (["head.options.readout.groups=30", "head.options.groups=20"], {"groups": 20}),
    ],
)
def test_an_option_of_a_part_is_set_whether_or_not_the_recipe_names_the_part(settings, readout):
    quick = load_recipe("quick")
    assert "readout" not in quick.head.options
    assert override(quick, settings).head.options == quick.head.options | {"readout": readout}


def test_a_part_that_is_neither_a_name_nor_options_is_refused():
    with pytest.raises(RecipeError, match="head option readout is 3; write a name"):
        override(load_recipe("quick"), ["head.options.readout=3"])


def test_augmentations_that_a_feature_cache_cannot_give_are_refused():
    with pytest.raises(RecipeError, match="cache_features: false"):
        override(load_recipe("quick"), ["augment.cutout=0.5"])
    assert override(load_recipe("quick"), ["training.cache_features=false", "augment.cutout=0.5"]).augment.cutout == 0.5


def test_a_field_without_its_part_is_found():
    with pytest.raises(RecipeError, match=r"did you mean training\.epochs=3"):
        override(Recipe(), ["epochs=3"])


def test_a_recipe_on_a_base_has_all_of_it_but_what_it_sets_and_what_the_base_says_of_itself(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: quick\nname: mine\ntraining: {epochs: 3}\nhead: {options: {readout: {groups: 7}}}\n")
    mine, quick = load_recipe(str(path)), load_recipe("quick")
    assert mine.head.options == quick.head.options | {"readout": {"groups": 7}}
    assert mine == dataclasses.replace(
        quick, name="mine", purpose="", head=mine.head, training=dataclasses.replace(quick.training, epochs=3)
    )


def test_a_recipe_of_before_may_have_a_base_of_now(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: quick-ml-decoder\nhead: {options: {groups: 7, dropout: 0.2}}\n")
    mine, base = load_recipe(str(path)), load_recipe("quick-ml-decoder")
    assert base.head.options["readout"] == {"groups": 20}
    assert mine.head.options == base.head.options | {"readout": {"groups": 7}, "decoder": {"dropout": 0.2}}
    path.write_text("base: quick-ml-decoder\nhead: {options: {readout: shared}}\n")
    assert load_recipe(str(path)).head.options["readout"] == {"name": "shared", "groups": 20}


def test_another_head_on_a_base_drops_the_options_of_the_bases_head(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: quick\nhead: {name: gap}\n")
    assert load_recipe(str(path)).head.options == {}


def test_what_a_base_reports_is_not_inherited(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: ml-decoder-coco-tresnet-l-640\n")
    mine = load_recipe(str(path))
    assert mine.reports == {}
    assert mine.preprocess.size == 640
    assert mine.optimiser.learning_rate == 2e-4, "from the base of the base of the base"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: quik", "did you mean 'quick'"),
        ("base: [quick]", "unknown base"),
        ("base: /etc/passwd", "unknown base"),
        ("base: quick\ntraining: {epoch: 3}", "did you mean 'epochs'"),
        ("base: quick\nhead: 3", "found int"),
        ("paper: hqs", "did you mean 'hsq'"),
        ("reports: {mAP: 88.0}", "say where the figures come from"),
        ("reports: {map: 88.0, source: here}", "did you mean 'mAP'"),
        ("reports: {mAP: many, source: here}", "a number of percent"),
        ("distill: {k: 5, teacher_epochs: 0}", "teacher_epochs is 0"),
        ("distill: {teacher_epochs: 2, kinds: [cow]}", "did you mean 'co'"),
        ("backbone: {drop_path: 1.5}", "backbone.drop_path is 1.5"),
        ("augment: {repeats: 0}", "it must be a whole number"),
        ("augment: {mixup: 0.2}", "cache_features: false"),
    ],
)
def test_a_base_and_what_a_paper_reports_are_checked_too(text, message, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert message in str(caught.value)


def test_recipes_that_are_based_on_each_other_are_refused(monkeypatch, tmp_path):
    for name, base in (("one", "two"), ("two", "one")):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nbase: {base}\n")
    files = {name: tmp_path / f"{name}.yaml" for name in ("one", "two")}
    monkeypatch.setattr("tagloom.recipe.loading.shipped_recipes", lambda: files)
    with pytest.raises(RecipeError, match="'one' is itself based on it"):
        load_recipe("one")


def test_every_row_of_a_paper_says_what_the_paper_reports_and_what_is_for_everybody_reports_nothing():
    for recipe in map(load_recipe, recipe_names()):
        row = recipe.paper != "" and recipe.name not in ("probe", "layover", "fine-tune")
        assert bool(recipe.reports) == row, recipe.name
        assert not row or recipe.data.holdout == 0, "papers learn from all training images"
        assert (recipe.distill is not None) == (recipe.paper == "cpsd" or recipe.name == "best"), recipe.name


def test_the_ready_tagger_can_be_trained_by_anyone_and_is_calibrated():
    ready = load_recipe("ready")
    assert ready.from_cache
    assert ready.backbone.weights == "bundled"
    assert ready.calibration.kind == "per-class"
    assert ready.data.holdout > 0


def test_turning_to_single_labels_takes_the_calibration_that_a_softmax_knows():
    assert for_task(load_recipe("ready"), "single").calibration.kind == "shared"
    assert for_task(load_recipe("quick"), "single").calibration.kind == "none"


def test_turning_to_single_labels_asks_no_random_queries():
    asking = override(load_recipe("quick-words"), ["words.random_queries=8"])
    assert for_task(asking, "single").words == dataclasses.replace(asking.words, random_queries=0)
