"""Costs are counted on shapes alone, and agree with the ML-Decoder paper's tables and with counting by hand."""

import pytest
import torch

from tagloom.models.cost import count_cost, tagger_cost
from tagloom.models.heads import create_head


@pytest.mark.parametrize(
    ("size", "classes", "head", "options", "paper"),
    [
        (448, 80, "gap", {}, 23.0e9),
        (448, 80, "transformer-decoder", {}, 24.1e9),
        (448, 80, "ml-decoder", {"groups": 20}, 23.6e9),
        (224, 9600, "ml-decoder", {"groups": 100}, 6.3e9),
    ],
)
def test_multiply_adds_are_those_of_the_papers_tables(size, classes, head, options, paper):
    whole, _ = tagger_cost("tresnet_m", head, classes=classes, size=size, **options)
    assert whole.multiply_adds == pytest.approx(paper, rel=0.015)


def test_a_linear_head_costs_what_its_matrix_costs():
    _, head = tagger_cost("test_efficientnet.r160_in1k", "gap", classes=7, size=64)
    assert head.parameters == head.multiply_adds + 7, "a weight per multiplication, and seven biases"


def test_counting_leaves_no_trace_and_needs_no_memory():
    with torch.device("meta"):
        head = create_head("ml-decoder", in_channels=2048, classes=100_000, groups=100)
        cost = count_cost(head, torch.zeros(1, 2048, 7, 7))
    assert cost.parameters > 70e6
    assert all(parameter.is_meta for parameter in head.parameters())
