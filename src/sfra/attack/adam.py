"""Adam on the cross-entropy of linear heads: a compiled engine for the CPU, a batched one for everything else.

For a batch of ``n`` samples with factors ``f_i`` (1 unless some count more than others) and the residuals
``r_i = f_i (softmax(W x_i + b) - onehot(y_i)) / n`` the gradient of the mean of ``f_i`` times the cross-entropy is
``Σ r_i x_iᵀ`` for ``W`` and ``Σ r_i`` for ``b``; nothing else is differentiated. Adam is torch's: betas 0.9 and 0.999,
epsilon 1e-8, weight decay added to the gradient (of the bias too), bias correction.

The compiled engine trains one head, on one core unless it is large; its result is the same to the last bit however
many threads run. It reads the shuffled samples in place. The batched engine trains heads of one shape side by side with
a dozen torch calls per step; on CUDA it records the steps of an epoch once, as a graph, and replays them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.optim.adam import adam

from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.types import Features, Labels

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8

LARGE = 2**20
"""``C·d`` of a head that is worth several threads: one step takes milliseconds, and they meet three times in it."""

ALIGNMENT = 64
"""Bytes of a vector register: samples that do not begin at a multiple are read at half the speed."""

LOGITS_AT_ONCE = 2**24
"""How many logits the loss of released heads holds in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """How the head is optimised; checked on creation."""

    learning_rate: float = 1e-2
    """Step size of Adam, positive."""
    weight_decay: float = 1e-4
    """Factor of the L2 term that is added to the gradient, at least 0."""
    batch_size: int = 256
    """Samples per step; the last batch of an epoch holds what is left."""

    def __post_init__(self) -> None:
        for name, fits, expected in (
            ("learning_rate", 0 < self.learning_rate < math.inf, "a positive number"),
            ("weight_decay", 0 <= self.weight_decay < math.inf, "0 or a positive number"),
            ("batch_size", self.batch_size >= 1, "at least 1"),
        ):
            if not fits:
                raise InputError(f"{name} is out of range", expected=expected, got=getattr(self, name))


class CompiledEngine:
    """Train one head in compiled loops, on one core or, if it is large, on several."""

    def __init__(
        self,
        weight: Float[Tensor, "1 C d"],
        bias: Float[Tensor, "1 C"],
        samples: Float[Tensor, "1 P d"],
        labels: Int[Tensor, "1 P"],
        factors: Float[Tensor, "1 P"],
        recipe: Optimiser,
        threads: int = 1,
    ) -> None:
        _, C, d = weight.shape
        rows = C + C % 2  # classes go in pairs; a spare row of zeros has no gradient and stays zero
        self._weight, self._bias = torch.zeros(4, rows, d), torch.zeros(4, rows)
        self._weight[0, :C], self._bias[0, :C] = weight[0], bias[0]
        self.weight, self.bias = self._weight[:1, :C], self._bias[:1, :C]
        x = samples[0].detach().to(torch.float32).contiguous()
        self._samples = (x.clone() if x.data_ptr() % ALIGNMENT else x).numpy()
        self._labels = labels[0].to(torch.int64).contiguous().numpy()
        self._factors = factors[0].to(torch.float32).contiguous().numpy()
        self._recipe, self._steps, self._threads = recipe, 0, threads
        self._z = torch.zeros(rows, min(recipe.batch_size, len(x)) + 4).numpy()

    def loss(self) -> Float[Tensor, " 1"]:
        """Return the mean loss of the head as it is."""
        return self._visit(torch.arange(len(self._labels)), train=False)

    def epoch(self, orders: Int[Tensor, "1 P"]) -> Float[Tensor, " 1"]:
        """Visit the samples in the given order; return the mean loss."""
        return self._visit(orders[0], train=True)

    def _visit(self, order: Int[Tensor, " P"], *, train: bool) -> Float[Tensor, " 1"]:
        from sfra.attack.adam_kernels import visit  # numba is slow to import, and of use here only

        if self._threads > 1 and is_large(self._weight[0]):
            total = self._visit_together(order, train=train)
        else:
            recipe, probes = self._recipe, (self._samples, self._labels, self._factors, order.numpy())
            settings = (recipe.batch_size, self._steps, recipe.learning_rate, recipe.weight_decay, train)
            total = visit(self._weight.numpy(), self._bias.numpy(), *probes, self.weight.shape[1], *settings, self._z)
        self._steps += train * math.ceil(len(order) / self._recipe.batch_size)
        return torch.tensor([total / len(order)], dtype=torch.float32)

    def _visit_together(self, order: Int[Tensor, " P"], *, train: bool) -> float:
        """Do what ``visit`` does, to the last bit, with threads that share out the classes or samples of each batch."""
        from sfra.attack.adam_kernels import add, descend, logits, residuals

        W, b, x, z, total = self._weight.numpy(), self._bias.numpy(), self._samples, self._z, 0.0
        rates = (self._recipe.learning_rate, self._recipe.weight_decay)
        with ThreadPoolExecutor(self._threads) as pool:

            def share(work: Callable[[int, int], None], items: int) -> None:
                size = 2 * math.ceil(items / (4 * self._threads))  # classes stay in pairs
                firsts = range(0, items, size)
                deque(pool.map(work, firsts, [min(first + size, items) for first in firsts]), maxlen=0)

            for step, start in enumerate(range(0, len(order), self._recipe.batch_size), 1 + self._steps):
                rows = order[start : start + self._recipe.batch_size].numpy()
                losses = np.empty(len(rows))
                share(partial(logits, W[0], b[0], x, rows, z), len(z))
                share(partial(residuals, z, self._labels, self._factors, rows, self.weight.shape[1], losses), len(rows))
                total += add(losses)
                if train:
                    share(partial(descend, W, b, x, rows, z, step, *rates), len(z))
        return total


class BatchedEngine:
    """Train heads of one shape side by side with torch, on any device."""

    def __init__(
        self,
        weight: Float[Tensor, "K C d"],
        bias: Float[Tensor, "K C"],
        samples: Float[Tensor, "K P d"],
        labels: Int[Tensor, "K P"],
        factors: Float[Tensor, "K P"],
        recipe: Optimiser,
    ) -> None:
        K, P, d = samples.shape
        device = weight.device
        self.weight, self.bias = weight.clone(), bias.clone()
        self._samples = samples.detach().to(torch.float32).reshape(K * P, d)
        self._labels = labels.to(torch.int64).reshape(K * P)
        self._factors = factors.to(torch.float32).reshape(K * P)
        self._recipe, self._run, self._epochs = recipe, self._steps, 0
        self._gradient = [torch.zeros_like(self.weight), torch.zeros_like(self.bias)]
        self._means = [torch.zeros_like(g) for g in self._gradient]
        self._squares = [torch.zeros_like(g) for g in self._gradient]
        self._counts = [torch.zeros((), device=device) for _ in range(2)]
        self._first = torch.arange(0, K * P, P).unsqueeze(1)
        self._orders = torch.zeros(K, P, dtype=torch.int64, device=device)
        self._losses = torch.zeros(K, P, device=device)

    def loss(self) -> Float[Tensor, " K"]:
        """Return the mean losses of the heads as they are."""
        K, C, d = self.weight.shape
        samples, labels, factors = self._samples.view(K, -1, d), self._labels.view(K, -1), self._factors.view(K, -1)
        rows = max(1, LOGITS_AT_ONCE // (K * C))
        for i in range(0, labels.shape[1], rows):
            logp = self._log_softmax(samples[:, i : i + rows])
            own = logp.gather(2, labels[:, i : i + rows, None]).squeeze(2)
            self._losses[:, i : i + rows] = -own * factors[:, i : i + rows]
        return self._losses.mean(dim=1)

    def epoch(self, orders: Int[Tensor, "K P"]) -> Float[Tensor, " K"]:
        """Visit the samples of every head in its order; return the mean losses."""
        self._orders.copy_(orders + self._first)
        if self._epochs == 1 and self.weight.is_cuda:
            self._run = self._capture()  # the first epoch ran step by step and warmed the libraries up
        self._run()
        self._epochs += 1
        return self._losses.mean(dim=1)

    def _log_softmax(self, samples: Float[Tensor, "K n d"]) -> Float[Tensor, "K n C"]:
        return torch.baddbmm(self.bias.unsqueeze(1), samples, self.weight.mT).log_softmax(dim=2)

    def _steps(self) -> None:
        batch = self._recipe.batch_size
        for start in range(0, self._orders.shape[1], batch):
            orders = self._orders[:, start : start + batch]
            K, n = orders.shape
            x = self._samples.index_select(0, orders.reshape(-1)).view(K, n, -1)
            y, f = self._labels[orders].unsqueeze(2), self._factors[orders].unsqueeze(2)
            logp = self._log_softmax(x)
            self._losses[:, start : start + n] = (-logp.gather(2, y) * f).squeeze(2)
            residual = logp.exp_().scatter_add_(2, y, logp.new_full((), -1.0).expand_as(y)).mul_(f).div_(n)
            torch.bmm(residual.mT, x, out=self._gradient[0])
            torch.sum(residual, 1, out=self._gradient[1])
            self._adam()

    def _adam(self) -> None:
        adam(
            [self.weight, self.bias],
            self._gradient,
            self._means,
            self._squares,
            [],
            self._counts,
            fused=True,
            capturable=self.weight.is_cuda,
            amsgrad=False,
            beta1=BETA_1,
            beta2=BETA_2,
            lr=self._recipe.learning_rate,
            weight_decay=self._recipe.weight_decay,
            eps=EPSILON,
            maximize=False,
        )

    def _capture(self) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.weight.device), torch.cuda.graph(graph):
            self._steps()
        return graph.replay


def is_large(weight: Float[Tensor, "C d"]) -> bool:
    """Tell whether several threads train one head of this size, rather than a head each."""
    return weight.numel() > LARGE


def make_engine(
    heads: Sequence[Head],
    samples: Sequence[Features],
    labels: Sequence[Labels],
    factors: Sequence[Float[Tensor, " P"]],
    recipe: Optimiser,
    threads: int = 1,
) -> CompiledEngine | BatchedEngine:
    """Set up the training of heads of one shape, each with as many samples, on the samples' device."""
    device, alone = samples[0].device, len(heads) == 1
    weights, biases = [head.weight.to(device) for head in heads], [head.bias.to(device) for head in heads]
    W, b, x, y, f = (
        parts[0].unsqueeze(0) if alone else torch.stack(list(parts))  # a single head's samples are not copied
        for parts in (weights, biases, samples, labels, factors)
    )
    if alone and device.type == "cpu":
        return CompiledEngine(W, b, x, y, f, recipe, threads)
    return BatchedEngine(W, b, x, y, f, recipe)
