"""Relearning against an independent loop: autograd, torch.optim.Adam and cross_entropy on the same batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import sfra.attack.adam
from builders.diagnostics import Labelled as Probes
from sfra.attack.adam import BatchedEngine, CompiledEngine, Optimiser, make_engine
from sfra.attack.path import Trajectory
from sfra.attack.relearn import relearn, relearn_many
from sfra.core.errors import InputError, SfraError
from sfra.core.head import Head


@pytest.fixture(params=["compiled", "batched"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with either engine: the batched one, which serves GPUs, in place of the compiled one too."""
    if request.param == "batched":
        monkeypatch.setattr(sfra.attack.adam, "CompiledEngine", lambda *given: BatchedEngine(*given[:-1]))
    return str(request.param)


def make_case(classes: int = 5, width: int = 17, samples: int = 150, seed: int = 0) -> tuple[Head, Probes]:
    own = torch.Generator().manual_seed(seed)
    head = Head(torch.randn(classes, width, generator=own), torch.randn(classes, generator=own))
    x = torch.randn(samples, width, generator=own)
    return head, Probes(x, torch.randint(0, classes, (samples,), generator=own))


def train_plainly(
    head: Head,
    probes: Probes,
    *,
    epochs: int,
    seed: int,
    dtype: torch.dtype,
    learning_rate: float = 1e-2,
    weight_decay: float = 1e-4,
    batch_size: int = 256,
    probe_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights, biases and losses of every epoch from the loop that anyone would write."""
    x, y = probes.samples.to(dtype), probes.labels
    v = torch.ones(len(y), dtype=dtype) if probe_weights is None else probe_weights.to(dtype)
    f = v / v.mean()

    def mean_loss(rows: Tensor) -> Tensor:
        return (f[rows] * cross_entropy(x[rows] @ weight.T + bias, y[rows], reduction="none")).mean()

    weight = nn.Parameter(head.weight.to(dtype, copy=True))
    bias = nn.Parameter(head.bias.to(dtype, copy=True))
    optimizer = torch.optim.Adam([weight, bias], lr=learning_rate, weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(seed)
    path = [(weight.detach().clone(), bias.detach().clone(), mean_loss(torch.arange(len(y))).detach())]
    for _ in range(epochs):
        order, total = torch.randperm(len(y), generator=generator), torch.zeros((), dtype=dtype)
        for start in range(0, len(y), batch_size):
            rows = order[start : start + batch_size]
            loss = mean_loss(rows)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach() * len(rows)
        path.append((weight.detach().clone(), bias.detach().clone(), total / len(y)))
    weights, biases, losses = (torch.stack(parts) for parts in zip(*path, strict=True))
    return weights, biases, losses


def largest_error(path: Trajectory, exact: tuple[Tensor, Tensor, Tensor]) -> list[float]:
    ours = (path.weights, path.biases, path.losses)
    return [float((a.double() - b).abs().max()) for a, b in zip(ours, exact, strict=True)]


def assert_same(one: Trajectory, other: Trajectory) -> None:
    for name in ("weights", "biases", "losses"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize(
    ("classes", "width", "samples", "batch_size", "learning_rate", "weight_decay"),
    [
        (5, 17, 150, 64, 1e-2, 1e-4),
        (10, 64, 300, 256, 1e-2, 1e-4),
        (3, 1, 7, 3, 1e-2, 0.0),
        (4, 40, 256, 128, 3e-3, 0.1),
        (12, 9, 30, 1, 1e-2, 1e-2),
        (51, 530, 70, 40, 1e-2, 1e-4),  # more rows and columns than a block of the compiled loops has
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("engine")
def test_every_epoch_is_that_of_autograd_and_torch_adam(
    classes: int, width: int, samples: int, batch_size: int, learning_rate: float, weight_decay: float, weighted: bool
) -> None:
    """As close to the float64 loop as the same loop in float32 is, up to a factor for luck in rounding.

    Adam divides by the gradient's own size, so an absolute tolerance would have to guess how much rounding it
    amplifies; the float32 loop measures just that. One step moves an entry by about the learning rate, so a
    wrong formula is off by 1e-2 or more.
    """
    head, probes = make_case(classes, width, samples)
    v = 10 ** torch.rand(samples, generator=torch.Generator().manual_seed(1)) if weighted else None
    rates: dict[str, Any] = {"learning_rate": learning_rate, "weight_decay": weight_decay, "probe_weights": v}
    path = relearn(head, probes, epochs=6, seed=3, batch_size=batch_size, **rates)
    exact, rough = (
        train_plainly(head, probes, epochs=6, seed=3, batch_size=batch_size, dtype=dtype, **rates)
        for dtype in (torch.float64, torch.float32)
    )
    rounding = [float((a - b).abs().max()) for a, b in zip(rough, exact, strict=True)]
    for ours, plain in zip(largest_error(path, exact), rounding, strict=True):
        assert ours <= 3 * plain + 1e-6


@pytest.mark.parametrize("samples", [1, 5, 64])
@pytest.mark.usefixtures("engine")
def test_the_gradient_is_that_of_autograd(samples: int) -> None:
    """After one step without decay Adam's first moment is a tenth of the gradient."""
    head, probes = make_case(samples=samples)
    weight, bias = head.weight.double().requires_grad_(), head.bias.double().requires_grad_()
    factors = torch.rand(samples, generator=torch.Generator().manual_seed(1))
    losses = cross_entropy(probes.samples.double() @ weight.T + bias, probes.labels, reduction="none")
    loss = (factors.double() * losses).mean()
    engine = make_engine([head], [probes.samples], [probes.labels], [factors], Optimiser(weight_decay=0.0))
    engine.epoch(torch.randperm(samples, generator=torch.Generator().manual_seed(0))[None])
    if isinstance(engine, CompiledEngine):
        moments = (engine._weight[2, : head.classes], engine._bias[2, : head.classes])
    else:
        moments = (engine._means[0][0], engine._means[1][0])
    for moment, slope in zip(moments, torch.autograd.grad(loss, (weight, bias)), strict=True):
        torch.testing.assert_close(10 * moment.double(), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("forget", [(4,), (1, 3)])
def test_forget_classes_come_back_and_the_loss_falls_where_the_probes_are_separable(forget: tuple[int, ...]) -> None:
    width = 24
    centres = 3 * torch.eye(6, width)
    hidden = centres.clone()
    hidden[list(forget)] = 0.0
    bias = torch.zeros(6)
    bias[list(forget)] = -5.0
    head = Head(hidden, bias)
    noise = torch.randn(600, width, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(600) % 6
    probes = Probes(centres[labels] + 0.3 * noise, labels)
    path = relearn(head, probes, epochs=60)
    asked = torch.isin(labels, torch.tensor(forget))
    before, after = (h(probes.samples).argmax(dim=1) == labels for h in (path.head(0), path.last))
    assert not before[asked].any()
    assert after.all()
    assert (path.losses[1:] < path.losses[:-1]).all()


def test_a_head_relearns_among_others_as_it_does_alone_bit_by_bit() -> None:
    cases = [make_case(seed=s) for s in range(5)] + [make_case(classes=4, width=30, samples=33)]
    seeds = [0, 1, 1, 7, 2, 0]
    together = relearn_many([h for h, _ in cases], [p for _, p in cases], epochs=4, seeds=seeds, batch_size=32)
    for (head, probes), seed, path in zip(cases, seeds, together, strict=True):
        assert_same(path, relearn(head, probes, epochs=4, seed=seed, batch_size=32))


@pytest.mark.parametrize("large", [False, True])
def test_the_number_of_threads_changes_nothing(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take turns with the heads, or share out every step of a large one."""
    if large:
        monkeypatch.setattr(sfra.attack.adam, "LARGE", 0)
    cases = [make_case(classes=31, samples=150 + 7 * s, seed=s) for s in range(4)]
    paths = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        settings: dict[str, Any] = {"epochs": 3, "seeds": range(4), "batch_size": 64}
        paths.append(relearn_many([h for h, _ in cases], [p for _, p in cases], **settings))
    for one, other in zip(*paths, strict=True):
        assert_same(one, other)


def test_heads_in_one_batch_follow_their_own_probes_and_orders() -> None:
    """The batch that a GPU trains, on the CPU: every head as close to its float64 loop as float32 gets."""
    cases = [make_case(samples=90, seed=s) for s in range(3)]
    heads, samples, labels = zip(*((h, p.samples, p.labels) for h, p in cases), strict=True)
    v = 10 ** torch.rand(3, 90, generator=torch.Generator().manual_seed(1))
    engine = make_engine(heads, samples, labels, [*(v / v.mean(1, keepdim=True))], Optimiser(batch_size=32))
    assert isinstance(engine, BatchedEngine)
    generators = [torch.Generator().manual_seed(s) for s in range(3)]
    losses = [engine.loss()]
    for _ in range(5):
        orders = torch.stack([torch.randperm(90, generator=own) for own in generators])
        losses.append(engine.epoch(orders))
    for k, (head, probes) in enumerate(cases):
        weights, biases, curve = train_plainly(
            head, probes, epochs=5, seed=k, batch_size=32, dtype=torch.float64, probe_weights=v[k]
        )
        torch.testing.assert_close(engine.weight[k].double(), weights[-1], rtol=0, atol=2e-5)
        torch.testing.assert_close(engine.bias[k].double(), biases[-1], rtol=0, atol=2e-5)
        torch.testing.assert_close(torch.stack(losses)[:, k].double(), curve, rtol=0, atol=2e-6)


def test_a_head_on_the_cpu_uses_the_compiled_engine() -> None:
    head, probes = make_case()
    probe = ([probes.samples], [probes.labels], [torch.ones(len(probes.labels))])
    assert isinstance(make_engine([head], *probe, Optimiser()), CompiledEngine)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_sees_the_same_batches_as_the_cpu() -> None:
    cases = [make_case(samples=200, seed=s) for s in range(3)] + [make_case(samples=90)]
    arguments = ([h for h, _ in cases], [p for _, p in cases])
    v = [1.0 + torch.arange(len(probes.labels)) % 7 for _, probes in cases]
    settings: dict[str, Any] = {"epochs": 8, "seeds": range(4), "batch_size": 64, "probe_weights": v}
    here, there = (relearn_many(*arguments, **settings, device=device) for device in ("cpu", "cuda"))
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=5e-5)
        torch.testing.assert_close(one.losses, other.losses, rtol=0, atol=5e-6)


@pytest.mark.usefixtures("engine")
def test_only_the_ratio_of_weights_counts_and_equal_weights_are_none_bit_by_bit() -> None:
    head, probes = make_case()
    v = 2.0 ** (torch.arange(len(probes.labels)) % 3)
    one, other = (relearn(head, probes, epochs=3, probe_weights=scale * v) for scale in (1.0, 4.0))
    assert_same(one, other)
    plain, equal = relearn(head, probes, epochs=3), relearn(head, probes, epochs=3, probe_weights=torch.full_like(v, 7))
    assert_same(plain, equal)
    assert not torch.equal(plain.weights[1], one.weights[1])


def test_weights_that_are_not_positive_or_do_not_fit_are_refused() -> None:
    head, probes = make_case()
    for wrong in (torch.ones(149), torch.zeros(150), torch.full((150,), torch.inf)):
        with pytest.raises(InputError, match="expected: 150 positive numbers"):
            relearn(head, probes, probe_weights=wrong)


@pytest.mark.usefixtures("engine")
def test_the_callers_head_probes_and_random_state_stay_as_they_are() -> None:
    head, probes = make_case()
    weight, bias, samples, labels = (t.clone() for t in (head.weight, head.bias, probes.samples, probes.labels))
    state = torch.get_rng_state()
    path = relearn(head, probes, epochs=2)
    path.weights.add_(1.0)
    path.biases.add_(1.0)
    assert torch.equal(state, torch.get_rng_state())
    for before, after in ((weight, head.weight), (bias, head.bias)):
        assert torch.equal(before, after)
    for before, after in ((samples, probes.samples), (labels, probes.labels)):
        assert torch.equal(before, after)


@pytest.mark.usefixtures("engine")
def test_no_epochs_give_the_released_head_and_its_loss() -> None:
    head, probes = make_case()
    path = relearn(head, probes, epochs=0)
    assert path.epochs == 0
    assert path.last.fingerprint == head.fingerprint
    torch.testing.assert_close(path.losses, cross_entropy(head(probes.samples), probes.labels)[None])


@pytest.mark.usefixtures("engine")
def test_the_loss_of_a_head_with_huge_rows_stays_finite() -> None:
    _, probes = make_case()
    head = Head(1e6 * make_case(seed=1)[0].weight)
    path = relearn(head, probes, epochs=3)
    exact = cross_entropy(probes.samples.double() @ head.weight.double().T, probes.labels)
    torch.testing.assert_close(path.losses[0].double(), exact, rtol=1e-5, atol=0)
    assert path.losses.isfinite().all()


def test_relearning_takes_other_float_and_integer_types_and_strided_samples() -> None:
    head, probes = make_case()
    wide = torch.stack([probes.samples, probes.samples], dim=2)[:, :, 0]
    other = Probes(wide.double(), probes.labels.to(torch.int32))
    assert_same(relearn(head, probes, epochs=2), relearn(head, other, epochs=2))


def test_chosen_epochs_are_kept_with_the_released_and_the_last_head() -> None:
    head, probes = make_case()
    whole = relearn(head, probes, epochs=6)
    assert whole.kept == (0, 1, 2, 3, 4, 5, 6)
    last, some = relearn(head, probes, epochs=6, record="last"), relearn(head, probes, epochs=6, record=[4, 2])
    for path, kept in ((last, (0, 6)), (some, (0, 2, 4, 6))):
        assert path.kept == kept
        assert torch.equal(path.weights, whole.weights[list(kept)])
        assert torch.equal(path.losses, whole.losses)
        assert path.last.fingerprint == whole.head(6).fingerprint
    with pytest.raises(InputError, match=r"no such epoch\n  expected: \[0, 2, 4, 6\]\n  got:      3"):
        some.head(3)
    with pytest.raises(InputError, match=r"expected: 0 to 6\n  got:      7"):
        whole.head(7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.full((150,), 5)}, "label is not a class of the head"),
        ({"labels": torch.full((150,), -1)}, "label is not a class of the head"),
        ({"labels": torch.zeros(150)}, "expected: 150 integers"),
        ({"labels": torch.zeros(149, dtype=torch.int64)}, "expected: 150 integers"),
        ({"samples": torch.zeros(150, 16)}, r"samples of shape \[P, 17\]"),
        ({"samples": torch.zeros(0, 17)}, "P at least 1"),
    ],
)
def test_probes_that_do_not_fit_are_refused(change: dict[str, Tensor], message: str) -> None:
    head, probes = make_case()
    with pytest.raises(InputError, match=message):
        relearn(head, Probes(**{"samples": probes.samples, "labels": probes.labels, **change}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": -1}, "epochs must be at least 0"),
        ({"learning_rate": 0.0}, "learning_rate is out of range"),
        ({"weight_decay": -1.0}, "weight_decay is out of range"),
        ({"batch_size": 0}, "batch_size is out of range"),
        ({"epochs": 3, "record": [4]}, "'all', 'last' or epochs from 0 to 3"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    head, probes = make_case()
    with pytest.raises(InputError, match=message):
        relearn(head, probes, **settings)  # type: ignore[arg-type]


def test_lists_of_different_lengths_are_refused() -> None:
    head, probes = make_case()
    with pytest.raises(InputError, match="2 heads, 1 probes, 2 seeds, 2 weights"):
        relearn_many([head, head], [probes], seeds=[0, 1])
    assert relearn_many([], [], seeds=[]) == []


@pytest.mark.usefixtures("engine")
def test_a_loss_that_is_not_finite_is_refused_with_its_epoch() -> None:
    head, probes = make_case()
    samples = probes.samples.clone()
    samples[7, 3] = float("nan")
    with pytest.raises(SfraError, match=r"relearning diverged\n.*\n  got:      nan at epoch 0\n"):
        relearn(head, Probes(samples, probes.labels), epochs=1)
    with pytest.raises(SfraError, match=r"got:      (nan|inf) at epoch [12] \(head 1\)"):
        relearn_many(
            [head, head],
            [probes, Probes(1e30 * probes.samples, probes.labels)],
            seeds=[0, 0],
            epochs=2,
            learning_rate=1e9,
            batch_size=10,
        )
