"""Losses, against literal formulas and torch's own."""

import inspect
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tagloom.errors import DataError, RecipeError
from tagloom.losses import (
    asymmetric_loss,
    binary_cross_entropy,
    create_loss,
    cross_entropy,
    expected_positives_loss,
    focal_loss,
    soft_margin_loss,
)
from tagloom.recipe.names import LOSSES, resolve

FUNCTIONS = {name: resolve(entry) for name, entry in LOSSES.items()}


def batch(images: int = 7, labels: int = 11, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets with exactly one positive per image and some more, and known with positives kept known."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(images, labels, generator=generator) * 3
    targets = (torch.rand(images, labels, generator=generator) < 0.2).long()
    targets[torch.arange(images), torch.randint(labels, (images,), generator=generator)] = 1
    known = (torch.rand(images, labels, generator=generator) < 0.7) | (targets == 1)
    return logits, targets, known


def literal_asymmetric(
    logits: Tensor, targets: Tensor, gamma_negative: float, gamma_positive: float, margin: float
) -> Tensor:
    """The definition, one pair at a time, in the logits' own precision."""
    total = logits.new_zeros(())
    for x, y in zip(logits.flatten(), targets.flatten(), strict=True):
        p = 1 / (1 + torch.exp(-x))
        if y:
            total = total - torch.log(p) * (1 - p.item()) ** gamma_positive
        else:
            q = torch.clamp(1 - p + margin, max=1)
            total = total - torch.log(q) * (1 - q.item()) ** gamma_negative
    return total / len(logits)


def value_and_gradient(loss: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.detach(), gradient


@pytest.mark.parametrize(
    ("gamma_negative", "gamma_positive", "margin"),
    [(4.0, 0.0, 0.05), (2.0, 1.0, 0.0), (0.0, 0.0, 0.2), (3.5, 0.5, 0.3), (0.0, 0.0, 0.0)],
)
def test_asymmetric_loss_and_gradient_follow_the_definition(
    gamma_negative: float, gamma_positive: float, margin: float
) -> None:
    logits, targets, _ = batch()
    logits.requires_grad_()
    exact = logits.detach().double().requires_grad_()
    given = value_and_gradient(asymmetric_loss(logits, targets, gamma_negative, gamma_positive, margin), logits)
    expected = value_and_gradient(literal_asymmetric(exact, targets, gamma_negative, gamma_positive, margin), exact)
    torch.testing.assert_close(given[0].double(), expected[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(given[1].double(), expected[1], rtol=1e-4, atol=1e-7)


def test_asymmetric_loss_without_gammas_and_margin_is_binary_cross_entropy() -> None:
    logits, targets, _ = batch()
    logits.requires_grad_()
    given = value_and_gradient(asymmetric_loss(logits, targets, 0.0, 0.0, 0.0), logits)
    reference = F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="sum") / len(logits)
    expected = value_and_gradient(reference, logits)
    torch.testing.assert_close(given, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_extreme_logits_give_finite_losses_and_gradients(name: str, extreme: float) -> None:
    logits = torch.full((2, 3), extreme, requires_grad=True)
    targets = torch.tensor([[1, 0, 0], [0, 1, 0]])
    loss, gradient = value_and_gradient(FUNCTIONS[name](logits, targets), logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_a_confident_mistake_is_charged_in_proportion_to_its_logit() -> None:
    logits = torch.tensor([[-1e4, 1e4]], requires_grad=True)
    loss, gradient = value_and_gradient(asymmetric_loss(logits, torch.tensor([[1, 0]]), margin=0.0), logits)
    assert loss.item() == pytest.approx(2e4)
    assert gradient.tolist() == [[-1.0, 1.0]]


def test_negatives_under_the_margin_cost_nothing() -> None:
    logits = torch.tensor([[-4.0, -3.0]], requires_grad=True)  # probabilities 0.018 and 0.047
    loss, gradient = value_and_gradient(asymmetric_loss(logits, torch.zeros(1, 2), gamma_negative=0.0), logits)
    assert loss.item() == 0
    assert gradient.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("poison", [math.inf, -math.inf, math.nan])
def test_unknown_pairs_have_exactly_no_loss_and_no_gradient(name: str, poison: float) -> None:
    logits, targets, known = batch()
    poisoned = torch.where(known, logits, poison).requires_grad_()
    other_targets = torch.where(known, targets, 1)
    loss, gradient = value_and_gradient(FUNCTIONS[name](poisoned, other_targets, known=known), poisoned)
    assert (gradient[~known] == 0).all()
    assert (gradient[known] != 0).any()
    clean = torch.where(known, logits, 5.0).requires_grad_()
    torch.testing.assert_close(
        (loss, gradient), value_and_gradient(FUNCTIONS[name](clean, targets, known=known), clean), rtol=0, atol=0
    )


@pytest.mark.parametrize("name", LOSSES)
def test_an_image_with_nothing_known_contributes_nothing(name: str) -> None:
    logits, targets, known = batch()
    known[0] = False
    logits.requires_grad_()
    loss, gradient = value_and_gradient(FUNCTIONS[name](logits, targets, known=known), logits)
    assert (gradient[0] == 0).all()
    without = FUNCTIONS[name](logits[1:], targets[1:], known=known[1:])
    torch.testing.assert_close(loss * len(logits), without.detach() * (len(logits) - 1))


@pytest.mark.parametrize("name", LOSSES)
def test_all_known_is_the_same_as_no_mask(name: str) -> None:
    logits, targets, _ = batch()
    everything = torch.ones_like(targets, dtype=torch.bool)
    torch.testing.assert_close(FUNCTIONS[name](logits, targets, known=everything), FUNCTIONS[name](logits, targets))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float64])
def test_targets_may_be_of_any_dtype(name: str, dtype: torch.dtype) -> None:
    logits, targets, _ = batch()
    torch.testing.assert_close(FUNCTIONS[name](logits, targets.to(dtype)), FUNCTIONS[name](logits, targets))


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_logits_are_computed_in_float32(name: str) -> None:
    logits, targets, known = batch(images=64, labels=500)
    half = (logits * 4).half().requires_grad_()
    single = half.detach().float().requires_grad_()
    given = value_and_gradient(FUNCTIONS[name](half, targets, known=known), half)
    expected = value_and_gradient(FUNCTIONS[name](single, targets, known=known), single)
    assert given[0].dtype == torch.float32
    torch.testing.assert_close(given[0], expected[0], rtol=0, atol=0)
    torch.testing.assert_close(given[1], expected[1].half(), rtol=0, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_weights_multiply_the_terms_per_class_or_per_pair(name: str) -> None:
    logits, targets, known = batch()
    per_class = torch.rand(logits.shape[1]) + 0.5
    loss = FUNCTIONS[name]
    torch.testing.assert_close(
        loss(logits, targets, known=known, weights=per_class),
        loss(logits, targets, known=known, weights=per_class.expand_as(logits)),
    )
    one_class = [loss(logits, targets, known=known, weights=row) for row in torch.eye(logits.shape[1])]
    torch.testing.assert_close(
        loss(logits, targets, known=known, weights=per_class), (torch.stack(one_class) * per_class).sum()
    )


def test_focal_loss_and_gradient_follow_the_definition() -> None:
    logits, targets, _ = batch()
    logits.requires_grad_()
    exact = logits.detach().double().requires_grad_()
    p_t = torch.where(targets == 1, torch.sigmoid(exact), 1 - torch.sigmoid(exact))
    alpha_t = torch.where(targets == 1, 0.25, 0.75)
    literal = (-alpha_t * (1 - p_t) ** 1.5 * torch.log(p_t)).sum() / len(exact)
    given = value_and_gradient(focal_loss(logits, targets, gamma=1.5, alpha=0.25), logits)
    expected = value_and_gradient(literal, exact)
    torch.testing.assert_close([t.double() for t in given], list(expected), rtol=1e-5, atol=1e-6)


def test_focal_loss_with_gamma_zero_is_binary_cross_entropy() -> None:
    logits, targets, known = batch()
    torch.testing.assert_close(
        focal_loss(logits, targets, gamma=0.0, known=known), binary_cross_entropy(logits, targets, known=known)
    )


def test_binary_cross_entropy_sums_over_labels_and_averages_over_images() -> None:
    logits, targets, known = batch()
    reference = F.binary_cross_entropy_with_logits(logits[known], targets[known].float(), reduction="sum") / len(logits)
    torch.testing.assert_close(binary_cross_entropy(logits, targets, known=known), reference)


def test_soft_margin_loss_is_torchs_and_averages_over_the_known_labels_of_each_image() -> None:
    logits, targets, known = batch()
    torch.testing.assert_close(soft_margin_loss(logits, targets), F.multilabel_soft_margin_loss(logits, targets))
    images = [
        F.multilabel_soft_margin_loss(x[None, seen], y[None, seen])
        for x, y, seen in zip(logits, targets, known, strict=True)
    ]
    torch.testing.assert_close(soft_margin_loss(logits, targets, known=known), torch.stack(images).mean())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_torchs_over_the_known_classes_of_each_image(smoothing: float) -> None:
    logits, _, known = batch()
    truth = torch.arange(len(logits)) % logits.shape[1]
    targets = F.one_hot(truth, logits.shape[1])
    known = known | targets.bool()
    torch.testing.assert_close(
        cross_entropy(logits, targets, smoothing), F.cross_entropy(logits, truth, label_smoothing=smoothing)
    )
    images = [
        F.cross_entropy(x[seen], y[seen].float(), label_smoothing=smoothing)
        for x, y, seen in zip(logits, targets, known, strict=True)
    ]
    torch.testing.assert_close(cross_entropy(logits, targets, smoothing, known=known), torch.stack(images).mean())


def test_cross_entropy_takes_probabilities() -> None:
    logits, _, _ = batch()
    targets = torch.softmax(torch.randn(logits.shape, generator=torch.Generator().manual_seed(3)), dim=1)
    torch.testing.assert_close(cross_entropy(logits, targets), F.cross_entropy(logits, targets))


def test_cross_entropy_of_an_image_without_a_positive_is_zero() -> None:
    logits, targets, _ = batch()
    targets[2:] = 0
    logits.requires_grad_()
    loss, gradient = value_and_gradient(cross_entropy(logits, targets, smoothing=0.1), logits)
    assert (gradient[2:] == 0).all()
    torch.testing.assert_close(loss * len(logits), cross_entropy(logits[:2], targets[:2], smoothing=0.1).detach() * 2)


def test_asymmetric_loss_keeps_one_float_tensor_for_the_backward_pass() -> None:
    logits, targets, known = batch(images=64, labels=300)
    logits.requires_grad_()
    saved: dict[int, int] = {}

    def remember(tensor: Tensor) -> Tensor:
        saved[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        asymmetric_loss(logits, targets, known=known)
    assert sum(saved.values()) <= logits.nbytes + known.nbytes


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_batch_costs_nothing(name: str) -> None:
    assert FUNCTIONS[name](torch.zeros(0, 3), torch.zeros(0, 3)).item() == 0


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(DataError, match=r"logits are \(2, 3\) but targets are \(3,\)"):
        asymmetric_loss(torch.zeros(2, 3), torch.zeros(3))
    with pytest.raises(DataError, match="known"):
        soft_margin_loss(torch.zeros(2, 3), torch.zeros(2, 3), known=torch.ones(2, 1, dtype=torch.bool))


def test_create_loss_fixes_options_and_leaves_known_to_the_call() -> None:
    logits, targets, known = batch()
    loss = create_loss("asymmetric", gamma_negative=2, margin=0.1)
    torch.testing.assert_close(
        loss(logits, targets, known), asymmetric_loss(logits, targets, 2.0, 0.0, 0.1, known=known), rtol=0, atol=0
    )


@pytest.mark.parametrize("name", LOSSES)
def test_every_option_takes_its_own_default_and_no_text(name: str) -> None:
    options = {
        option: parameter.default
        for option, parameter in inspect.signature(resolve(LOSSES[name])).parameters.items()
        if option not in ("logits", "targets", "known", "weights")
    }
    create_loss(name, **options)
    for option in (*options, "unknown_weight"):
        with pytest.raises(RecipeError, match=f"loss option {option} is 'four'"):
            create_loss(name, **{option: "four"})


def test_wrong_names_fail_with_the_right_ones() -> None:
    with pytest.raises(RecipeError, match="did you mean 'asymmetric'"):
        create_loss("asymetric")
    with pytest.raises(RecipeError, match=r"'gama'.*did you mean 'gamma'.*alpha, gamma, unknown_weight, weights"):
        create_loss("focal", gama=1.0)
    with pytest.raises(RecipeError, match="'known'"):
        create_loss("bce", known=None)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("asymmetric", "margin", -0.1),
        ("asymmetric", "gamma_negative", "four"),
        ("focal", "alpha", 2),
        ("focal", "gamma", math.nan),
        ("focal", "gamma", True),
        ("cross-entropy", "smoothing", None),
    ],
)
def test_values_that_cannot_work_are_refused(name: str, option: str, value: object) -> None:
    with pytest.raises(RecipeError, match=f"loss option {option} is"):
        create_loss(name, **{option: value})


def test_a_recipe_may_list_label_weights():
    logits, targets = torch.randn(4, 3), (torch.rand(4, 3) > 0.5).float()
    weighted = create_loss("bce", weights=[0.0, 2.0, 1.0])(logits, targets)
    assert torch.allclose(weighted, binary_cross_entropy(logits, targets, weights=torch.tensor([0.0, 2.0, 1.0])))
    with pytest.raises(RecipeError, match="one per class"):
        create_loss("bce", weights=[1, -1])
    with pytest.raises(RecipeError, match="2 weights for 3 classes"):
        create_loss("bce", weights=[1, 1])(logits, targets)


@pytest.mark.parametrize("name", ["asymmetric", "focal", "bce"])
def test_unknown_labels_may_count_as_negatives_of_a_small_weight(name):
    logits, targets = torch.randn(4, 5), torch.randint(0, 2, (4, 5)).float()
    known = torch.rand(4, 5) < 0.5
    function = FUNCTIONS[name]
    expected = function(logits, targets, known=known) + 0.3 * function(logits, 0 * targets, known=~known)
    assert torch.allclose(create_loss(name, unknown_weight=0.3)(logits, targets, known), expected)
    left_out = create_loss(name, unknown_weight=0.0)(logits, targets, known)
    assert torch.allclose(left_out, function(logits, targets, known=known))


def test_the_weight_of_unknown_labels_multiplies_that_of_the_label():
    logits, targets, known = torch.randn(2, 2), torch.zeros(2, 2), torch.tensor([[True, False], [False, True]])
    weighted = create_loss("bce", unknown_weight=0.5, weights=[2.0, 3.0])(logits, targets, known)
    by_hand = FUNCTIONS["bce"](logits, targets, weights=torch.tensor([[2.0, 1.5], [1.0, 3.0]]))
    assert torch.allclose(weighted, by_hand)
    assert torch.isfinite(create_loss("bce", unknown_weight=0.5)(logits, targets))


@pytest.mark.parametrize("name", ["bce", "soft-margin"])
def test_smoothing_spreads_a_share_of_the_target_over_all_labels(name):
    logits, targets = torch.randn(3, 4), torch.eye(4)[:3]
    smooth = 0.9 * targets + 0.1 / 4
    expected = F.binary_cross_entropy_with_logits(logits, smooth, reduction="sum") / 3
    found = create_loss(name, smoothing=0.1)(logits, targets) * (4 if name == "soft-margin" else 1)
    assert torch.allclose(found, expected)


def test_each_class_may_have_its_own_weight_of_unknown_labels():
    logits, targets, known = torch.randn(3, 4), torch.zeros(3, 4), torch.rand(3, 4) < 0.4
    targets[known] = 1
    weights = [0.0, 0.2, 0.5, 1.0]
    expected = 0.0
    for row in range(3):
        for column in range(4):
            probability = torch.sigmoid(logits[row, column])
            if known[row, column]:
                expected += -torch.log(probability)
            else:
                expected += -weights[column] * torch.log(1 - probability)
    loss = create_loss("bce", unknown_weight=weights)
    assert torch.allclose(loss(logits, targets, known), expected / 3, atol=1e-5)
    # Random queries stand after the classes and are known.
    more = torch.cat([logits, torch.zeros(3, 2)], dim=1)
    padded = loss(more, torch.zeros(3, 6).index_put_(known.nonzero(as_tuple=True), torch.ones(1)), _known_after(known))
    assert torch.allclose(padded, expected / 3 + 2 * math.log(2), atol=1e-5)
    with pytest.raises(RecipeError, match="4 values of unknown_weight for 2 classes"):
        loss(logits[:, :2], targets[:, :2], known[:, :2])
    with pytest.raises(RecipeError, match="unknown_weight"):
        create_loss("bce", unknown_weight=[0.5, 2.0])


def _known_after(known):
    return torch.cat([known, torch.ones(len(known), 2, dtype=torch.bool)], dim=1)


def test_expected_positives_ask_for_a_number_of_labels_per_image():
    logits, targets, known = torch.randn(3, 4), torch.ones(3, 4), torch.rand(3, 4) < 0.4
    columns = torch.tensor([True, False, True, True])
    plain = create_loss("bce")
    given = sum(float(torch.sigmoid(logits[row, column])) for row in range(3) for column in range(4) if columns[column])
    expected = float(plain(logits, targets, known)) + 0.5 * 3 * ((given / 3 - 1.5) / 3) ** 2
    loss = expected_positives_loss(plain, columns, expected=1.5, weight=0.5)
    assert float(loss(logits, targets, known)) == pytest.approx(expected, rel=1e-5)
