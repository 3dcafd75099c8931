"""Each method's step against its formula, written out by the definition and differentiated by autograd."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from builders.models import assert_weights, ce, descend, loaded, net, only, samples
from sfra import unlearn
from sfra.unlearn import Task

RATE = 0.05
KEPT = (0, 2, 4)


def once(name: str, model: nn.Module, data: unlearn.TensorData, forget: tuple[int, ...], **settings: Any) -> nn.Module:
    """Run one epoch in full batches, by plain gradient steps of size RATE."""
    plain = {"epochs": 1, "batch_size": 999, "learning_rate": RATE, "optimizer": "sgd", "momentum": 0.0}
    rebuild = settings.pop("rebuild", None)
    return unlearn.get(name)(**plain | settings)(model, data, forget, rebuild=rebuild).model


def kl(p: Tensor, q: Tensor) -> Tensor:
    """Average ``Σ_j p_j (log p_j - log q_j)`` over the rows, summing only where p_j > 0."""
    rows = [sum(a * (a.log() - b.log()) for a, b in zip(r, s, strict=True) if a > 0) for r, s in zip(p, q, strict=True)]
    return torch.stack([torch.as_tensor(row) for row in rows]).mean()


def softmax(logits: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum(1, keepdim=True)


@pytest.fixture
def fixed_labels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take the chance out of random labels: 0, 2, 4, 0, 2, … in the order of the forget data."""
    labels: list[int] = []

    def draw(task: Task, count: int) -> Tensor:
        labels[:] = [KEPT[i % 3] for i in range(count)]
        return torch.tensor(labels)

    monkeypatch.setattr(Task, "random_retain_labels", draw)
    return labels


def test_finetune_descends_the_cross_entropy_of_the_retain_data() -> None:
    model, data = net(), samples()
    x, y = only(data, *KEPT)
    assert_weights(once("finetune", model, data, (1, 3)), descend(model, ce(model(x), y), RATE))


def test_momentum_carries_the_last_step_on_and_weight_decay_pulls_to_zero() -> None:
    model, data, decay = net(), samples(), 0.1
    x, y = only(data, *KEPT)
    first = loaded(net(), descend(model, ce(model(x), y), RATE, decay))
    free = descend(first, ce(first(x), y), RATE, decay)
    start, middle = dict(model.named_parameters()), dict(first.named_parameters())
    expected = {name: free[name] + 0.6 * (middle[name] - start[name]).detach() for name in free}
    result = once("finetune", model, data, (1, 3), epochs=2, momentum=0.6, weight_decay=decay)
    assert_weights(result, expected)


def test_adam_steps_by_the_sign_of_the_slope_with_its_decay() -> None:
    """The first step of Adam is ``rate · g / (|g| + 1e-8)`` with g the slope plus the decay's share."""
    model, data, decay = net(), samples(), 0.7
    x, y = only(data, *KEPT)
    slopes = {
        n: start - end
        for (n, start), end in zip(
            model.named_parameters(), descend(model, ce(model(x), y), 1.0, decay).values(), strict=True
        )
    }
    expected = {n: (w - RATE * slopes[n] / (slopes[n].abs() + 1e-8)).detach() for n, w in model.named_parameters()}
    plain = descend(model, ce(model(x), y), 1.0)
    assert any(((w - plain[n]) * slopes[n] < 0).any() for n, w in model.named_parameters())
    assert_weights(once("finetune", model, data, (1, 3), optimizer="adam", weight_decay=decay), expected)


def test_negative_gradient_ascends_the_cross_entropy_of_the_forget_data() -> None:
    model, data = net(), samples()
    x, y = only(data, 1, 3)
    assert_weights(once("negative-gradient", model, data, (1, 3)), descend(model, -ce(model(x), y), RATE))


def test_negative_gradient_plus_weighs_descent_against_ascent() -> None:
    model, data = net(), samples()
    (x, y), (u, v) = only(data, *KEPT), only(data, 1, 3)
    loss = 0.8 * ce(model(x), y) - 0.2 * ce(model(u), v)
    result = once("negative-gradient-plus", model, data, (1, 3), alpha=0.8)
    assert_weights(result, descend(model, loss, RATE))


def test_negative_gradient_plus_repeats_the_forget_data_until_the_retain_data_end() -> None:
    """Six forget samples meet 24 retain samples in batches of 6: four steps, each with all of F."""
    model, data = net(), samples()
    u, v = only(data, 3)
    gone: dict[str, Tensor] = {}
    walker: nn.Module = copy.deepcopy(model)
    for _ in range(4):
        gone = descend(walker, -ce(walker(u), v), RATE)
        walker = loaded(copy.deepcopy(walker), gone)
    result = once("negative-gradient-plus", model, data, (3,), alpha=0.0, batch_size=6)
    assert_weights(result, gone)


def test_random_label_descends_on_the_forget_data_under_the_drawn_labels(fixed_labels: list[int]) -> None:
    model, data = net(), samples()
    result = once("random-label", model, data, (1, 3))
    x, _ = only(data, 1, 3)
    assert_weights(result, descend(model, ce(model(x), torch.tensor(fixed_labels)), RATE))


@pytest.mark.parametrize(("name", "draws"), [("random-label", 1), ("salun", 3)])
def test_random_labels_are_drawn_once_by_random_label_and_anew_each_epoch_by_salun(
    name: str, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    draw = Task.random_retain_labels

    def counted(task: Task, count: int) -> Tensor:
        counts.append(count)
        return draw(task, count)

    monkeypatch.setattr(Task, "random_retain_labels", counted)
    once(name, net(), samples(), (1, 3), epochs=3, batch_size=4)
    assert counts == [12] * draws


def test_delete_distils_the_original_with_every_forget_class_struck_out() -> None:
    """Two steps: at the second the student has moved, but its target has not."""
    model, data = net(), samples()
    x, _ = only(data, 1, 3)
    target = model(x).detach().exp()
    target[:, [1, 3]] = 0.0
    target = target / target.sum(1, keepdim=True)
    first = loaded(copy.deepcopy(model), descend(model, kl(target, softmax(model(x))), RATE))
    second = descend(first, kl(target, softmax(first(x))), RATE)
    assert_weights(once("delete", model, data, (1, 3), epochs=2), second)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_bad_teacher_distils_ignorance_on_forget_and_the_original_on_retain_data(temperature: float) -> None:
    """Two steps: at the second the student is no longer the original, which stays the teacher."""
    model, ignorant, data = net(), net(seed=9), samples()
    gone = torch.isin(data.labels, torch.tensor([1, 3])).unsqueeze(1)
    teacher = softmax(torch.where(gone, ignorant(data.images), model(data.images)).detach() / temperature)

    def loss(student: nn.Module) -> Tensor:
        return temperature**2 * kl(teacher, softmax(student(data.images) / temperature))

    first = loaded(net(), descend(model, loss(model), RATE))
    settings = {"rebuild": lambda seed: copy.deepcopy(ignorant), "retain_share": 1.0, "temperature": temperature}
    result = once("bad-teacher", model, data, (1, 3), epochs=2, **settings)
    assert_weights(result, descend(first, loss(first), RATE))


def test_bad_teachers_ignorance_is_asked_in_eval_mode() -> None:
    model, data = net(), samples()
    moods: list[bool] = []
    ignorant = net(seed=9)
    ignorant[1].register_forward_hook(lambda module, *_: moods.append(module.training))
    once("bad-teacher", model, data, (1, 3), rebuild=lambda seed: ignorant)
    assert moods == [False]


def test_bad_teacher_reads_the_share_of_the_retain_data_it_is_told_to() -> None:
    class Counting(unlearn.TensorData):
        def take(self, index: Tensor) -> Tensor:
            read.update(index.tolist())
            return super().take(index)

    data = samples(10)
    read: set[int] = set()
    once("bad-teacher", net(), Counting(data.images, data.labels), (1,), retain_share=0.3, epochs=3)
    labels = data.labels[sorted(read)]
    assert (int((labels == 1).sum()), int((labels != 1).sum())) == (10, 12)


def test_scrub_leaves_the_teacher_on_forget_data_then_returns_to_it_on_retain_data() -> None:
    model, data, T = net(), samples(), 2.0
    (x, y), (u, _) = only(data, *KEPT), only(data, 1, 3)
    # The divergence and its slope are 0 where student and teacher agree: start the student elsewhere.
    teacher = {name: softmax(model(part) / T).detach() for name, part in (("R", x), ("F", u))}
    first = loaded(net(), descend(model, -T * T * kl(teacher["F"], softmax(model(u) / T)), RATE))
    loss = 0.7 * ce(first(x), y) + 0.4 * T * T * kl(teacher["R"], softmax(first(x) / T))
    middle = loaded(net(), descend(first, loss, RATE))
    away = loaded(net(), descend(middle, -T * T * kl(teacher["F"], softmax(middle(u) / T)), RATE))
    end = descend(away, 0.7 * ce(away(x), y) + 0.4 * T * T * kl(teacher["R"], softmax(away(x) / T)), RATE)
    settings = {"alpha": 0.4, "gamma": 0.7, "temperature": T, "max_epochs": 2, "epochs": 2}
    assert_weights(once("scrub", model, data, (1, 3), **settings), end)


def test_scrub_passes_over_forget_data_in_its_first_epochs_only_and_before_the_retain_data() -> None:
    order: list[str] = []

    class Watched(unlearn.TensorData):
        def take(self, index: Tensor) -> Tensor:
            order.extend("F" if int(label) in (1, 3) else "R" for label in self.labels[index])
            return super().take(index)

    data = samples()
    watched = Watched(data.images, data.labels)
    once("scrub", net(), watched, (1, 3), max_epochs=2, epochs=4, batch_size=6)
    both, rest = "F" * 12 + "R" * 18, "R" * 18
    assert "".join(order[1:]) == both + both + rest + rest


def test_scrub_makes_no_pass_over_forget_data_if_told_so() -> None:
    model, data = net(), samples()
    x, y = only(data, *KEPT)
    result = once("scrub", model, data, (1, 3), alpha=0.0, gamma=1.0, max_epochs=0)
    assert_weights(result, descend(model, ce(model(x), y), RATE))


def salient(model: nn.Module, data: unlearn.TensorData, share: float) -> dict[str, Tensor]:
    """Mark the weights above the share's quantile of ``|∇ CE(F)|``."""
    x, y = only(data, 1, 3)
    slopes = torch.autograd.grad(ce(model(x), y), list(model.parameters()))
    sizes = torch.cat([slope.abs().flatten() for slope in slopes])
    bar = sizes.sort(descending=True).values[round(share * len(sizes)) - 1]
    return {name: slope.abs() >= bar for (name, _), slope in zip(model.named_parameters(), slopes, strict=True)}


def test_salun_steps_with_weight_decay_inside_the_mask_only(fixed_labels: list[int]) -> None:
    model, data = net(), samples()
    masks = salient(model, data, 0.4)
    result = once("salun", model, data, (1, 3), share=0.4, weight_decay=0.1)
    (x, y), (u, _) = only(data, *KEPT), only(data, 1, 3)
    loss = ce(model(torch.cat([u, x])), torch.cat([torch.tensor(fixed_labels), y]))
    step = descend(model, loss, RATE, decay=0.1)
    start = dict(model.named_parameters())
    assert_weights(result, {name: torch.where(masks[name], step[name], start[name].detach()) for name in step})


@pytest.mark.parametrize("settings", [{"retain": False}, {"in_turn": True}], ids=["F alone", "F, then R"])
def test_salun_may_draw_labels_of_all_classes_once_and_step_on_forget_data_by_themselves(
    settings: dict[str, bool],
) -> None:
    model, data = net(), samples()
    masks, start = salient(model, data, 0.4), dict(model.named_parameters())
    generator = torch.Generator().manual_seed(0)
    torch.randperm(12, generator=generator)  # the order in which the mask is computed
    labels = torch.randint(5, (12,), generator=generator)
    assert set(labels.tolist()) & {1, 3}
    parts = [(only(data, 1, 3)[0], labels)]
    if "in_turn" in settings:
        parts.append(only(data, *KEPT))
    walker: nn.Module = copy.deepcopy(model)
    for images, wanted in parts * 2:
        step = descend(walker, ce(walker(images), wanted), RATE)
        held = {name: torch.where(masks[name], step[name], start[name].detach()) for name in step}
        walker = loaded(copy.deepcopy(walker), held)
    result = once("salun", model, data, (1, 3), share=0.4, weight_decay=0.0, epochs=2, **settings)
    assert_weights(result, held)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_salun_never_moves_a_masked_out_weight_nor_its_momentum(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[torch.optim.Optimizer] = []
    make = unlearn.SalUn._make_optimizer

    def spy(method: unlearn.SalUn, student: nn.Module) -> torch.optim.Optimizer:
        made.append(make(method, student))
        return made[-1]

    monkeypatch.setattr(unlearn.SalUn, "_make_optimizer", spy)
    model, data = net(), samples()
    masks = salient(model, data, 0.5)
    settings = {"share": 0.5, "weight_decay": 0.1, "epochs": 4, "momentum": 0.9, "batch_size": 8}
    result = once("salun", model, data, (1, 3), **settings | {"optimizer": optimizer})
    start, memories = dict(model.named_parameters()), list(made[0].state.values())
    for (name, weight), memory in zip(result.named_parameters(), memories, strict=True):
        still = ~masks[name]
        assert torch.equal(weight[still], start[name][still])
        assert not torch.isclose(weight[masks[name]], start[name][masks[name]], rtol=0, atol=1e-9).any()
        for value in memory.values():
            if isinstance(value, Tensor) and value.shape == weight.shape:
                assert not value[still].any()
                assert value[masks[name]].all()


def test_boundary_shrink_descends_towards_the_nearest_retained_class_of_the_original() -> None:
    """Two steps: at the second the student would name other neighbours, but the original is asked."""
    model, data, bound, rate = net(seed=3), samples(), 0.7, 3.0
    x, y = only(data, 1, 3)
    targets = []
    for image, label in zip(x, y, strict=True):
        point = image[None].clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(ce(model(point), label[None]), point)
        answer = model(image[None] + bound * slope.sign())[0].detach()
        targets.append(max(KEPT, key=lambda k: answer[k].item()))
    assert len(set(targets)) > 1
    first = loaded(net(), descend(model, ce(model(x), torch.tensor(targets)), rate))
    assert first(x)[:, list(KEPT)].argmax(1).tolist() != [KEPT.index(k) for k in targets]
    result = once("boundary-shrink", model, data, (1, 3), bound=bound, epochs=2, learning_rate=rate)
    assert_weights(result, descend(first, ce(first(x), torch.tensor(targets)), rate))


def test_learn_to_unlearn_ascends_on_forget_data_and_descends_on_its_imitations(fixed_labels: list[int]) -> None:
    """Two steps, on imitations of the original that are made once."""
    model, data = net(), samples()
    attack: dict[str, Any] = {"radius": 0.5, "step_size": 0.2, "iterations": 5}
    result = once("learn-to-unlearn", model, data, (1, 3), adversarial_weight=0.3, epochs=2, **attack)
    x, y = only(data, 1, 3)
    twins = []
    for image, target in zip(x, fixed_labels, strict=True):
        twin = image.clone()
        for _ in range(5):
            twin = twin.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(ce(model(twin[None]), torch.tensor([target])), twin)
            shift = twin - 0.2 * slope / slope.square().sum().sqrt() - image
            length = shift.square().sum().sqrt()
            twin = image + (shift if length <= 0.5 else shift * 0.5 / length)
        twins.append(twin.detach())

    def loss(student: nn.Module) -> Tensor:
        return -ce(student(x), y) + 0.3 * ce(student(torch.stack(twins)), torch.tensor(fixed_labels))

    first = loaded(net(), descend(model, loss(model), RATE))
    assert_weights(result, descend(first, loss(first), RATE))


def test_learn_to_unlearn_is_pulled_back_most_where_the_forget_data_matter_least(
    fixed_labels: list[int],
) -> None:
    """The pull is 0 at the start and ``ρ Ω (θ - θ0)`` afterwards: two steps show it."""
    model, data, rho = net(), samples(), 2.0
    x, y = only(data, 1, 3)
    names = [name for name, _ in model.named_parameters()]
    size = model(x).square().sum(1).sqrt().mean()
    slopes = [slope.abs() for slope in torch.autograd.grad(size, list(model.parameters()))]
    omega = {n: (s.max() - s) / (s.max() - s.min()) for n, s in zip(names, slopes, strict=True)}
    first = descend(model, -ce(model(x), y), RATE)
    middle = loaded(copy.deepcopy(model), first)
    free = descend(middle, -ce(middle(x), y), RATE)
    start = dict(model.named_parameters())
    expected = {n: free[n] - RATE * rho * omega[n] * (first[n] - start[n].detach()) for n in names}
    settings = {"adversarial_weight": 0.0, "iterations": 0, "importance_weight": rho, "epochs": 2}
    assert_weights(once("learn-to-unlearn", model, data, (1, 3), **settings), expected)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("bad-teacher", 8),
        ("boundary-shrink", 3),
        ("delete", 3),
        ("finetune", 5),
        ("learn-to-unlearn", 3),
        ("negative-gradient", 3),
        ("negative-gradient-plus", 5),
        ("random-label", 3),
        ("salun", 8),
        ("scrub", 3 + 5),
    ],
)
def test_an_epoch_takes_a_step_for_every_batch(name: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 4 make 3 of the 12 forget samples, 5 of the 18 retain samples and 8 of both together."""
    made: list[torch.optim.Optimizer] = []
    taken: list[str] = []
    make = unlearn.StepMethod._make_optimizer

    def spy(method: unlearn.StepMethod, student: nn.Module) -> torch.optim.Optimizer:
        made.append(make(method, student))
        made[-1].register_step_post_hook(lambda *_: taken.append("step"))
        return made[-1]

    monkeypatch.setattr(unlearn.StepMethod, "_make_optimizer", spy)
    share = {"retain_share": 1.0} if name == "bad-teacher" else {}
    once(name, net(), samples(), (1, 3), batch_size=4, **share)
    assert len(taken) == steps
