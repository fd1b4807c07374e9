"""Distillation's pure parts against the paper's equations, written as loops."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable
from tagloom.errors import TaggerError
from tagloom.losses import create_loss
from tagloom.training.features.batches import Batch
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.tasks.distillation import (
    DistillTask,
    MergedTeachers,
    RememberedLogits,
    TeacherGroup,
    heard,
    merge_order,
    online,
    part_matrix,
    remember,
)

CLASSES = ("ant", "bee", "cat", "dog", "eel")
PARTS = {"co-1": ("dog", "ant"), "co-2": ("bee",), "co-3": ("eel", "cat")}
WIDTH, COUNT = 6, 23
LOSS = create_loss("asymmetric")


def batch_of(images: int = 4, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(images, WIDTH, generator=generator)
    targets = (torch.rand(images, len(CLASSES), generator=generator) < 0.4).float()
    return Batch((inputs,), targets, None, torch.arange(images))


def linear(classes: int, seed: int) -> torch.nn.Linear:
    torch.manual_seed(seed)
    return torch.nn.Linear(WIDTH, classes)


@pytest.fixture
def feature_batches(tmp_path):
    """Features in two views, with other values in the mirrored one."""
    rng = np.random.default_rng(0)
    keys = [str(row) for row in range(COUNT)]
    views = []
    for name in ("plain", "mirrored"):
        cache = FeatureCache(tmp_path / name)
        cache.add(keys, [rng.standard_normal((COUNT, WIDTH)).astype(np.float32)])
        views.append(cache.view(keys))
    positive = csr_array(rng.random((COUNT, len(CLASSES))) < 0.4)
    table = LabelTable(Path("photos"), [f"{key}.jpg" for key in keys], CLASSES, positive)
    return FeatureBatches(views, table, batch_size=4, seed=3, chances=(0.5, 0.5))


def test_the_loss_is_the_papers_equation_averaged_over_images():
    batch = batch_of()
    student, co, dis = (linear(len(CLASSES), seed) for seed in range(3))
    task = DistillTask(student, LOSS, {"co": TeacherGroup(online(co)), "dis": TeacherGroup(online(dis))})
    s, plus, minus = (net(batch.inputs[0]).tolist() for net in (student, co, dis))
    l_kd = 0.0
    for i in range(4):
        l_kd += 0.5 * sum((s[i][j] - plus[i][j]) ** 2 for j in range(5))
        l_kd += 0.5 * sum((s[i][j] - minus[i][j]) ** 2 for j in range(5))
    found = task(batch)
    l_cls = LOSS(student(batch.inputs[0]), batch.targets).item()
    assert found["distance"].item() == pytest.approx(l_kd / 4, rel=1e-5)
    assert found["loss"].item() == pytest.approx(l_cls + l_kd / 4, rel=1e-5)


def test_teachers_are_heard_only_on_images_that_have_a_class_of_theirs():
    batch = batch_of(16)
    student, teacher = linear(len(CLASSES), 0), linear(len(CLASSES), 1)
    parts = part_matrix(CLASSES, list(PARTS.values()))
    s, t = student(batch.inputs[0]).tolist(), teacher(batch.inputs[0]).tolist()
    expected, silent = 0.0, 0
    for i in range(16):
        for part in PARTS.values():
            members = [CLASSES.index(name) for name in part]
            if any(batch.targets[i, j] == 1 for j in members):
                expected += 0.5 * sum((s[i][j] - t[i][j]) ** 2 for j in members)
            else:
                silent += 1
    assert 0 < silent < 16 * len(PARTS)
    found = DistillTask(student, LOSS, {"co": TeacherGroup(online(teacher), parts=parts)})(batch)
    assert found["distance"].item() == pytest.approx(expected / 16, rel=1e-5)
    assert heard(batch.targets, parts).shape == batch.targets.shape


def test_each_kind_of_teachers_counts_by_its_weight():
    batch, student, teacher = batch_of(), linear(5, 0), linear(5, 1)

    def distance(**weights):
        groups = {name: TeacherGroup(online(teacher), weight) for name, weight in weights.items()}
        return DistillTask(student, LOSS, groups)(batch)["distance"].item()

    assert distance(co=0.5) == pytest.approx(distance(co=1.0) / 2)
    assert distance(co=0.25, dis=2.0) == pytest.approx(distance(co=1.0) * 2.25)
    assert distance(co=0.0) == 0


def test_the_loss_does_not_depend_on_how_images_are_dealt_into_batches():
    whole, student, teacher = batch_of(8), linear(5, 0), linear(5, 1)
    task = DistillTask(student, LOSS, {"co": TeacherGroup(online(teacher))})
    halves = [
        Batch((whole.inputs[0][rows],), whole.targets[rows], None, whole.rows[rows])
        for rows in (slice(0, 4), slice(4, 8))
    ]
    mean = sum(task(half)["loss"].item() for half in halves) / 2
    assert task(whole)["loss"].item() == pytest.approx(mean, rel=1e-5)


def test_labels_that_are_unknown_are_learned_from_teachers_alone():
    batch = batch_of()
    nothing = Batch(batch.inputs, batch.targets, torch.zeros(4, 5, dtype=torch.bool), batch.rows)
    found = DistillTask(linear(5, 0), LOSS, {"co": TeacherGroup(online(linear(5, 1)))})(nothing)
    assert found["supervised"].item() == 0
    assert found["distance"].item() > 0


def test_merged_logits_are_in_the_students_order_whatever_the_order_of_teachers_and_of_their_classes():
    rng = np.random.default_rng(0)
    inputs = torch.randn(7, WIDTH)
    one_per_class = {name: linear(1, seed) for seed, name in enumerate(CLASSES)}
    expected = torch.cat([one_per_class[name](inputs) for name in CLASSES], dim=1)
    for _ in range(10):
        names = rng.permutation(CLASSES).tolist()
        first, second = sorted(rng.integers(1, 5, size=2))
        parts = [part for part in (names[:first], names[first:second], names[second:]) if part]
        teachers = [lambda x, part=part: torch.cat([one_per_class[name](x) for name in part], dim=1) for part in parts]
        order = merge_order(CLASSES, {f"co-{number}": part for number, part in enumerate(parts)})
        torch.testing.assert_close(MergedTeachers(teachers, order)(inputs), expected)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({**PARTS, "co-2": ()}, "no teacher knows 'bee'"),
        ({**PARTS, "co-2": ("bee", "dog")}, "more than one teacher knows 'dog'"),
        ({**PARTS, "co-2": ("bee", "fox")}, "the student does not know 'fox'"),
    ],
)
def test_teachers_that_do_not_make_up_the_students_classes_are_named_with_the_fault(parts, message):
    with pytest.raises(TaggerError, match=rf"co-1, co-2, co-3 cannot be merged: {message}.*--resume"):
        merge_order(CLASSES, parts)


def test_teachers_get_no_gradient_and_the_student_does():
    batch, student, teacher = batch_of(), linear(5, 0), linear(5, 1)
    merged = MergedTeachers([teacher], range(5))
    DistillTask(student, LOSS, {"self": TeacherGroup(online(merged))})(batch)["loss"].backward()
    assert teacher.weight.grad is None
    assert student.weight.grad.abs().sum() > 0


def test_remembered_and_online_teachers_give_the_same_loss_in_both_views(feature_batches):
    student, teacher = linear(5, 0), MergedTeachers([linear(5, 1)], [4, 2, 0, 1, 3])
    remembered = remember(teacher, feature_batches, torch.device("cpu"))
    assert remembered.views.shape == (2, COUNT, 5)
    assert not torch.allclose(remembered.views[0], remembered.views[1])
    tasks = [DistillTask(student, LOSS, {"co": TeacherGroup(logits)}) for logits in (remembered, online(teacher))]
    mirrored = 0
    for epoch in range(2):
        for batch in feature_batches.epoch(epoch):
            ours, theirs = (task(batch)["loss"].item() for task in tasks)
            assert ours == pytest.approx(theirs, rel=1e-5)
            mirrored += int(batch.view.sum())
    assert 0 < mirrored < 2 * COUNT, "both views were seen"


def test_a_batch_says_in_which_view_its_rows_are(feature_batches):
    plain, mirrored = (view.gather(np.arange(COUNT))[0] for view in feature_batches.views)
    for batch in feature_batches.epoch(0):
        for index, (row, flipped) in enumerate(zip(batch.rows.tolist(), batch.view.tolist(), strict=True)):
            np.testing.assert_array_equal(batch.inputs[0][index].numpy(), (mirrored if flipped else plain)[row])
    assert not any(batch.view.any() for batch in feature_batches.in_order())
    assert all(batch.view.all() for batch in feature_batches.in_order(view=1))
    assert all(batch.to(torch.device("cpu")).view is not None for batch in feature_batches.epoch(0))


def test_teachers_are_asked_once_and_asking_can_be_stopped(feature_batches):
    told, asked = [], []

    def teacher(inputs):
        asked.append(len(inputs))
        return torch.zeros(len(inputs), 5)

    remember(teacher, feature_batches, torch.device("cpu"), lambda done, total: told.append((done, total)))
    assert sum(asked) == 2 * COUNT
    assert told == [(done, 12) for done in range(1, 13)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        remember(teacher, feature_batches, torch.device("cpu"), stop)


def test_remembered_logits_follow_rows_and_views():
    views = torch.arange(2 * 3 * 2.0).view(2, 3, 2)
    batch = Batch((), torch.zeros(2, 2), None, torch.tensor([2, 0]), torch.tensor([1, 0]))
    assert RememberedLogits(views)(batch).tolist() == [[10.0, 11.0], [0.0, 1.0]]
