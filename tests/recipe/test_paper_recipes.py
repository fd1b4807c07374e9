"""Every recipe can be trained: its head, loss, optimiser and mixing take a step on a tiny backbone, its own backbone
exists, and the sizes are those of the papers' tables."""

from dataclasses import replace
from functools import cache

import pytest

from tagloom.recipe import Recipe, load_recipe, recipe_names, recipe_text

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

from tagloom.losses import create_loss  # noqa: E402
from tagloom.models.backbone import create_backbone  # noqa: E402
from tagloom.models.cost import count_cost, tagger_cost  # noqa: E402
from tagloom.models.feature_maps import stage_channels  # noqa: E402
from tagloom.models.heads import create_head, needs_words  # noqa: E402
from tagloom.models.network import build_network  # noqa: E402
from tagloom.training.features.batches import Batch  # noqa: E402
from tagloom.training.optimiser import create_optimiser  # noqa: E402
from tagloom.training.tasks.choose import choose_task  # noqa: E402

RECIPES = {name: load_recipe(name) for name in recipe_names()}


def label_count(recipe: Recipe) -> int:
    """How many labels the data set that a recipe names has."""
    counts = {"-voc-": 20, "-nuswide-zsl-": 925, "-nuswide-": 81, "-openimages-": 9600, "-imagenet-": 1000}
    return next((count for part, count in counts.items() if part in recipe.name), 80)


@cache
def own_backbone(name: str, depths: tuple[int, ...]) -> torch.nn.Module:
    """The recipe's backbone on the meta device: shapes without numbers."""
    with torch.device("meta"):
        return create_backbone(name, "none", depths=depths).net


def parameters(module: torch.nn.Module) -> float:
    """Parameters in millions."""
    return sum(parameter.numel() for parameter in module.parameters()) / 1e6


@cache
def sizes(name: str) -> tuple[float, float]:
    """Parameters of a recipe's backbone and of its head, in millions."""
    recipe = RECIPES[name]
    net, head, classes = own_backbone(recipe.backbone.name, recipe.backbone.depths), recipe.head, label_count(recipe)
    with torch.device("meta"):
        vectors = torch.zeros(classes, 50) if needs_words(head.name, head.options) else None
        top = create_head(
            head.name,
            in_channels=net.num_features,
            classes=classes,
            stage_channels=stage_channels(net),
            word_vectors=vectors,
            **head.options,
        )
    return parameters(net), parameters(top)


@pytest.mark.parametrize("name", RECIPES)
def test_the_backbone_of_every_recipe_exists_with_weights_and_its_head_fits_it(name):
    recipe = RECIPES[name]
    body, head = sizes(name)
    assert body > 1
    assert head > 0
    if recipe.backbone.weights == "hub":
        assert recipe.backbone.name in timm.list_pretrained()
        assert timm.get_pretrained_cfg(recipe.backbone.name).tag


TAKEN: set[str] = set()


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_steps_that_move_what_it_trains(name):
    recipe = RECIPES[name]
    parts = (recipe.head, recipe.loss, recipe.optimiser, recipe.task, recipe.augment, recipe.backbone.frozen)
    if str((parts, label_count(recipe))) in TAKEN:  # differs only in backbone and size, which are tiny here
        return
    TAKEN.add(str((parts, label_count(recipe))))
    torch.manual_seed(0)
    classes = label_count(recipe)
    vectors = torch.randn(classes, 8) if needs_words(recipe.head.name, recipe.head.options) else None
    network = build_network(
        backbone="test_resnet",
        weights="none",
        head=recipe.head.name,
        head_options=recipe.head.options,
        classes=classes,
        size=64,
        frozen=recipe.backbone.frozen,
        drop_path=recipe.backbone.drop_path,
        word_vectors=vectors,
    ).train()
    optimiser = create_optimiser(network, replace(recipe.optimiser, backbone_factor=1.0))
    loss = create_loss(recipe.loss.name, **recipe.loss.options)
    task = choose_task(recipe, network, loss, network.head)
    pictures = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8)
    targets = torch.nn.functional.one_hot(torch.tensor([0, classes - 1]), classes).float()
    known = torch.rand(2, classes) < 0.5 if "unknown_weight" in recipe.loss.options else None
    before = {label: value.detach().clone() for label, value in network.named_parameters() if value.requires_grad}

    # Linear heads begin with zeros, and pass nothing down before they have moved; plain momentum takes longer.
    for _ in range(4 if recipe.head.name == "layover" else 2):
        optimiser.zero_grad()
        result = task(Batch((pictures,), targets, known, torch.arange(2)))
        result["loss"].backward()
        optimiser.step()

    assert network(pictures).shape == (2, classes)
    assert torch.isfinite(result["loss"])
    moved = {label for label, value in network.named_parameters() if label in before and not before[label].equal(value)}
    still = {label for label in before if label.startswith("head.")} - moved
    assert len(still) <= 0.1 * len(before), still
    assert any(label.startswith("backbone.") for label in moved) != recipe.backbone.frozen


@pytest.mark.parametrize(
    ("name", "millions", "source"),
    [
        ("query2label-coco-resnet10t-576", 14.8, "HSQ, A.2"),
        ("layover-fine-tune-coco-swin-l-384", 195, "Layover, Table 1"),
        ("layover-fine-tune-coco-swin-b-384", 87, "Layover, Table 1"),
        ("layover-fine-tune-coco-resnet101x3-448", 387, "Layover, Table 1"),
        ("layover-fine-tune-coco-resnet50x3-448", 216, "Layover, Table 1"),
        ("ml-decoder-coco-resnet101-448", 44.549 - 2.049 + 7.151, "timm without its classifier, and the head by hand"),
        ("cpsd-coco-resnext50-swsl-448", 25.029 - 2.049 + 0.164, "timm without its classifier, and a linear layer"),
        ("hsq-coco-convnext-22k-576", 350.197 - 2.049 + 171.2, "timm without its classifier, and the head"),
    ],
)
def test_taggers_are_as_large_as_the_papers_say(name, millions, source):
    assert sum(sizes(name)) == pytest.approx(millions, rel=0.025), source


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("layover-mixup-coco-resnet101x3-448", 4.5, 5.5),
        ("layover-mixup-coco-resnet50x3-448", 4.5, 5.5),
        ("layover-mixup-coco-swin-l-384", 0.0, 0.5),
        ("layover-mixup-coco-swin-b-384", 0.0, 0.5),
        ("layover-probe-coco-resnet101x3-448", 0.0, 1.0),
        ("layover-probe-coco-swin-l-384", 0.0, 0.5),
    ],
)
def test_what_layover_trains_is_as_small_as_its_table_says(name, low, high):
    assert RECIPES[name].backbone.frozen
    assert low <= sizes(name)[1] < high


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith(("layover-probe-", "layover-mixup-"))])
def test_the_rows_of_layover_take_features_as_they_are_and_the_recipes_for_everybody_do_not(name):
    base = "probe" if "probe" in name else "layover"
    assert not RECIPES[name].training.standardise
    assert RECIPES[base].training.standardise
    epochs = 50 if name.endswith("-50-epochs") else RECIPES[base].training.epochs
    assert replace(RECIPES[name].training, standardise=True) == replace(RECIPES[base].training, epochs=epochs)
    assert not RECIPES[name].optimiser.nesterov
    assert ("mixing_start" in recipe_text(name)) == ("mixup" in name)


def test_shared_experts_cost_what_the_paper_says():
    more = sizes("hsq-coco-resnet10t-576")[1] - sizes("hsq-coco-resnet10t-576-1-shared")[1]
    assert more == pytest.approx(15.5 - 14.3, abs=0.1), "HSQ, A.2: 16 shared experts, and one"


def test_the_large_tresnet_of_the_released_code_costs_what_the_paper_says():
    recipe = RECIPES["ml-decoder-coco-tresnet-xl-640"]
    with torch.device("meta"):
        network = build_network(
            backbone=recipe.backbone.name,
            weights="none",
            head=recipe.head.name,
            head_options=recipe.head.options,
            classes=80,
            size=640,
            frozen=False,
            depths=recipe.backbone.depths,
        )
        cost = count_cost(network, torch.zeros(1, 640, 640, 3, dtype=torch.uint8))
    assert cost.multiply_adds == pytest.approx(103.8e9, rel=0.01), "ML-Decoder, Table 10"


def test_every_row_of_the_tables_reports_all_its_figures():
    seven = {"mAP", "CP", "CR", "CF1", "OP", "OR", "OF1"}
    for name, recipe in RECIPES.items():
        source = recipe.reports.get("source", "")
        if source == "Layover, Table 1" or (source == "CPSD, Table 1"):
            assert seven <= set(recipe.reports), name
        if source.startswith("HSQ, Table 2"):
            assert {"mAP", "CF1", "OF1", "CF1_top3", "OF1_top3"} <= set(recipe.reports), name


def test_hsq_is_algorithm_1_in_every_recipe():
    heads = [recipe.head for recipe in RECIPES.values() if recipe.head.name == "hsq"]
    assert {head.options["readout"]["shared_input"] for head in heads} == {"task"}


def test_teachers_have_the_rate_of_the_released_code_and_the_student_a_tenth_of_it():
    recipe = RECIPES["cpsd-coco-resnet101-tf-448-co"]
    assert (recipe.distill.teacher_learning_rate, recipe.optimiser.learning_rate) == (1e-4, 1e-5)
    assert (recipe.distill.kinds, recipe.distill.weights) == (("co",), {"co": 1.0})


def test_the_second_tresnet_l_is_the_papers():
    recipe = RECIPES["ml-decoder-coco-tresnet-l-224"]
    whole, _ = tagger_cost(recipe.backbone.name, recipe.head.name, classes=80, size=224, **recipe.head.options)
    assert whole.multiply_adds == pytest.approx(9.3e9, rel=0.01), "ML-Decoder, Table 10"
