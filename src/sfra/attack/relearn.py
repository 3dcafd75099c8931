"""Relearn the head on synthetic probes: step two of the audit, which sees the head and the probes and nothing else.

The encoder is frozen, so only ``(W, b)`` moves: cross-entropy on the probes, Adam, shuffled batches, from the
released head onwards. Nothing here can open a data set; real samples appear only later, to measure the trajectory.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.attack.adam import Optimiser, is_large, make_engine
from sfra.attack.path import Record, Trajectory, check_room, kept_epochs, refuse_divergence
from sfra.attack.pulse import Pulse
from sfra.core.cpu import one_thread
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.types import Features, Labels

Weights = Float[Tensor, " _"]
"""How much each probe counts in the loss."""


@runtime_checkable
class LabelledProbes(Protocol):
    """What relearning needs to know of the probes."""

    @property
    def samples(self) -> Features:
        """Inputs of the head."""

    @property
    def labels(self) -> Labels:
        """The class that each probe stands for."""


def relearn(
    head: Head,
    probes: LabelledProbes,
    *,
    epochs: int = 100,
    seed: int = 0,
    learning_rate: float = 1e-2,
    weight_decay: float = 1e-4,
    batch_size: int = 256,
    probe_weights: Weights | None = None,
    device: str | torch.device | None = None,
    record: Record = "all",
) -> Trajectory:
    """Train a copy of the head on labelled probes and return the whole path.

    Minimises ``Σ_i v_i · -log softmax(W s_i + b)_{y_i} / Σ_i v_i`` over the probes ``(s_i, y_i)`` of weight ``v_i``
    with Adam (betas 0.9 and 0.999, epsilon 1e-8, the weight decay added to the gradient). A batch of ``n`` probes
    contributes ``1/n Σ f_i · -log softmax`` with ``f_i = v_i P / Σ v``, 1 on average over all ``P`` probes, so that its
    gradient is that of the whole loss in the mean over batches. Epoch ``e`` visits the probes in the order of the
    ``e``-th ``torch.randperm`` of a CPU generator with the given seed, on every device, in batches of
    ``batch_size``; the last batch holds what is left. Head and probes stay as they are.

    Args:
        head: the released head, ``W`` [C, d] and ``b`` [C].
        probes: ``samples`` [P, d] and ``labels`` [P].
        epochs: how often every probe is visited; 0 returns the released head alone.
        seed: of the order of the probes.
        learning_rate: of Adam.
        weight_decay: of Adam, as an L2 term in the gradient of weight and bias.
        batch_size: probes per step.
        probe_weights: ``v`` [P], positive; all equal when left out.
        device: where to compute; the probes' device when left out.
        record: ``"all"`` heads, or to save memory only the ``"last"`` one or those of the given epochs; the
            released and the last head are always kept.

    >>> from types import SimpleNamespace
    >>> probes = SimpleNamespace(samples=torch.eye(3), labels=torch.arange(3))
    >>> path = relearn(Head(weight=torch.zeros(3, 3)), probes, epochs=20)
    >>> path.epochs, path.last(torch.eye(3)).argmax(dim=1).tolist()
    (20, [0, 1, 2])
    """
    return relearn_many(
        [head],
        [probes],
        epochs=epochs,
        seeds=[seed],
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        batch_size=batch_size,
        probe_weights=None if probe_weights is None else [probe_weights],
        device=device,
        record=record,
    )[0]


def relearn_many(
    heads: Sequence[Head],
    probes: Sequence[LabelledProbes],
    *,
    epochs: int = 100,
    seeds: Sequence[int],
    learning_rate: float = 1e-2,
    weight_decay: float = 1e-4,
    batch_size: int = 256,
    probe_weights: Sequence[Weights] | None = None,
    device: str | torch.device | None = None,
    record: Record = "all",
    pulse: Pulse | None = None,
) -> list[Trajectory]:
    """Train several heads, each on its own probes and with its own seed, as :func:`relearn` would one by one.

    On the CPU the heads share out the cores (as many as ``torch.get_num_threads()``) and the results are those of
    :func:`relearn` to the last bit. On a GPU all heads of the same shape and number of probes are trained in one
    batch and agree with :func:`relearn` up to float rounding; their probes are in its memory together. ``pulse`` is
    told how many epochs of all heads together are done.
    """
    weights: Sequence[Weights | None] = [None] * len(heads) if probe_weights is None else probe_weights
    if not len(heads) == len(probes) == len(seeds) == len(weights):
        raise InputError(
            "heads, probes and seeds do not pair up",
            expected="one of each, and of the weights if given, per run",
            got=f"{len(heads)} heads, {len(probes)} probes, {len(seeds)} seeds, {len(weights)} weights",
        )
    recipe = Optimiser(learning_rate=learning_rate, weight_decay=weight_decay, batch_size=batch_size)
    kept = kept_epochs(epochs, record)
    runs = [_Run(*parts, device) for parts in zip(heads, probes, seeds, weights, strict=True)]
    check_room(len(kept), heads)
    paths = _train_all(runs, recipe, kept, _counter(pulse, len(runs) * kept[-1]))
    for index, path in enumerate(paths):
        refuse_divergence(path, f" (head {index})" if len(runs) > 1 else "")
    return paths


class _Run:
    """One head to relearn, with its checked probes, what they count, and its seed."""

    def __init__(
        self,
        head: Head,
        probes: LabelledProbes,
        seed: int,
        weights: Weights | None,
        device: str | torch.device | None,
    ) -> None:
        if not isinstance(probes, LabelledProbes):
            got = type(probes).__name__
            raise InputError("these are not probes", expected="what sfra.sample_probes returns", got=got)
        samples, labels = probes.samples, probes.labels
        _check_probes(head, samples, labels)
        self.head, self.seed = head, seed
        self.device = torch.device(samples.device if device is None else device)
        self.samples = samples.detach().to(self.device, torch.float32)
        self.labels = labels.to(self.device, torch.int64)
        self.factors = _factors(weights, len(labels)).to(self.device)


def _check_probes(head: Head, samples: Tensor, labels: Tensor) -> None:
    """Refuse probes that do not fit the head: the compiled loops trust every index."""
    if samples.ndim != 2 or samples.shape[1] != head.width or len(samples) == 0:
        raise InputError(
            "the probes do not fit the head",
            expected=f"samples of shape [P, {head.width}] with P at least 1",
            got=list(samples.shape),
            do="draw the probes from this head",
        )
    if labels.shape != samples.shape[:1] or labels.is_floating_point():
        raise InputError(
            "the probes' labels do not fit their samples",
            expected=f"{len(samples)} integers",
            got=f"{labels.dtype} of shape {list(labels.shape)}",
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= head.classes:
        raise InputError(
            "a probe's label is not a class of the head",
            expected=f"0 to {head.classes - 1}",
            got=low if low < 0 else high,
        )


def _factors(weights: Weights | None, probes: int) -> Weights:
    """Scale the weights of the probes to the mean 1."""
    if weights is None:
        return torch.ones(probes)
    if weights.shape != (probes,) or not bool(((weights > 0) & weights.isfinite()).all()):
        raise InputError(
            "the weights of the probes cannot be used",
            expected=f"{probes} positive numbers",
            got=f"shape {list(weights.shape)}, from {float(weights.min())} to {float(weights.max())}",
        )
    exact = weights.detach().to("cpu", torch.float64)
    return (exact * (probes / exact.sum())).float()


def _groups(runs: Sequence[_Run]) -> list[list[int]]:
    """Return the indices of the runs that are trained together: equal shapes on one GPU, else one by one."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, run in enumerate(runs):
        shape = (run.device, *run.head.weight.shape, len(run.labels))
        groups.setdefault((index,) if run.device.type == "cpu" else shape, []).append(index)
    return list(groups.values())


def _counter(pulse: Pulse | None, total: int) -> Callable[[int], None]:
    """Return what adds up the epochs that are done and passes them on."""
    done = itertools.count(1)
    return lambda heads: pulse(heads * next(done), total) if pulse is not None else None


def _train_all(
    runs: Sequence[_Run], recipe: Optimiser, kept: tuple[int, ...], tell: Callable[[int], None]
) -> list[Trajectory]:
    """Train every group; small heads on the CPU share out the cores, others use them all by themselves."""
    threads, paths = torch.get_num_threads(), dict[int, Trajectory]()
    alone, shared = list[Iterator[bool]](), deque[Iterator[bool]]()
    for group in _groups(runs):
        first = runs[group[0]]
        together = threads > 1 and first.device.type == "cpu" and not is_large(first.head.weight)
        (shared if together else alone).append(_train(group, runs, recipe, kept, tell, threads, paths))

    def take_turns() -> None:
        """Go on with the run that waits longest until none waits: no core is idle for longer than a turn in the end.

        A turn is a tenth of all epochs, as the probes of the run have to come into the cache first.
        """
        while True:
            try:
                training = shared.popleft()
            except IndexError:
                return
            if all(next(training, False) for _ in range(1 + kept[-1] // 10)):
                shared.append(training)

    with one_thread(), ThreadPoolExecutor(threads) as pool:
        for training in alone:
            deque(training, maxlen=0)
        for done in [pool.submit(take_turns) for _ in range(min(threads, len(shared)))]:
            done.result()
    return [paths[index] for index in range(len(runs))]


def _train(
    group: list[int],
    runs: Sequence[_Run],
    recipe: Optimiser,
    kept: tuple[int, ...],
    tell: Callable[[int], None],
    threads: int,
    paths: dict[int, Trajectory],
) -> Iterator[bool]:
    """Train the runs of one group side by side, yielding after every epoch, and write their paths down in the end."""
    mine = [runs[index] for index in group]
    parts = ((run.head, run.samples, run.labels, run.factors) for run in mine)
    heads, samples, labels, factors = zip(*parts, strict=True)
    engine = make_engine(heads, samples, labels, factors, recipe, threads)
    orders = _orders(len(mine[0].labels), [run.seed for run in mine])
    weights, biases = (t.new_empty(len(mine), len(kept), *t.shape[1:]) for t in (engine.weight, engine.bias))
    losses = weights.new_empty(len(mine), kept[-1] + 1)
    places = {epoch: at for at, epoch in enumerate(kept)}
    for epoch in range(kept[-1] + 1):
        losses[:, epoch] = engine.epoch(next(orders)) if epoch else engine.loss()
        if (at := places.get(epoch)) is not None:
            weights[:, at], biases[:, at] = engine.weight, engine.bias
        if epoch:
            tell(len(mine))
        yield True
    for index, W, b, curve in zip(group, weights, biases, losses, strict=True):
        paths[index] = Trajectory(weights=W.cpu(), biases=b.cpu(), losses=curve.cpu(), kept=kept)


def _orders(samples: int, seeds: Sequence[int]) -> Iterator[Int[Tensor, "K P"]]:
    """Yield, epoch after epoch, the order in which each run visits its probes; equal seeds share theirs."""
    generators = {seed: torch.Generator().manual_seed(seed) for seed in seeds}
    while True:
        drawn = {seed: torch.randperm(samples, generator=own) for seed, own in generators.items()}
        yield torch.stack([drawn[seed] for seed in seeds])
