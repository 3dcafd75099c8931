"""One training step: plain, or captured once as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sfra.core.types import Labels
from sfra.models.forward import Images, logits

WARM_UPS = 3
"""Plain steps before a capture: libraries choose their kernels and the optimiser makes its buffers."""

Targets = Labels | Float[Tensor, "n C"]
"""Classes, or a distribution over them for each sample."""

Loss = Float[Tensor, ""]
"""What a step descends."""


class Capture:
    """Records a piece of work as a CUDA graph: a replay launches the hundreds of kernels of a step at once.

    What the work reads and writes stays where it is.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def warm(self, work: Callable[[], Loss]) -> Loss:
        """Do the work once on a side stream, so that nothing of autograd stays bound to the default one."""
        with torch.cuda.device(self.device):
            here, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(here)
            with torch.cuda.stream(side):
                loss = work()
            here.wait_stream(side)
            loss.record_stream(here)
        return loss

    def record(self, work: Callable[[], Loss]) -> tuple[Loss, Callable[[], None]]:
        """Record the work without doing it: where its result will be, and what does it.

        The current stream is restored even when that fails.
        """
        with torch.cuda.device(self.device):
            here, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    loss = work()
            finally:
                torch.cuda.set_stream(here)
        return loss, graph.replay


class Stepper:
    """Takes steps on the cross-entropy of a network, each kernel launched by itself."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, smoothing: float) -> None:
        self.network, self.optimizer, self.smoothing = network, optimizer, smoothing
        self.note = ""
        """Something worth telling, once."""

    def __call__(self, images: Images, labels: Targets, rate: float) -> Loss:
        """Take one step at this learning rate and return the loss before it, detached, without waiting."""
        set_rate(self.optimizer, rate)
        return self._descend(images, labels)

    def _descend(self, images: Images, labels: Targets, network: nn.Module | None = None) -> Loss:
        answer = logits(network or self.network, images)
        return step(self.optimizer, cross_entropy(answer, labels, label_smoothing=self.smoothing))


class CapturedStepper(Stepper):
    """Replays a captured step for batches of the first batch's shape; other batches step plainly.

    The first steps are plain ones too. If the capture fails, all are, and ``note`` says why. Batches of other shapes
    go through ``plain``, the same weights not compiled: a compiled network would be compiled again for each shape.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        smoothing: float,
        capture: Capture,
        plain: nn.Module | None = None,
    ) -> None:
        super().__init__(network, optimizer, smoothing)
        self.capture: Capture | None = capture
        self.plain = plain or network
        self.warmed = 0
        self.shape: torch.Size | None = None
        self.replay: Callable[[], None] | None = None

    def __call__(self, images: Images, labels: Targets, rate: float) -> Loss:
        """Take one step; see :class:`Stepper`."""
        set_rate(self.optimizer, rate)
        self.shape = self.shape or images.shape
        if images.shape != self.shape:
            return self._descend(images, labels, self.plain)
        if self.capture is None:
            return self._descend(images, labels)
        if self.warmed < WARM_UPS:
            self.warmed += 1
            return self.capture.warm(lambda: self._descend(images, labels))
        if self.replay is None and not self._record(self.capture, images, labels):
            return self._descend(images, labels)
        assert self.replay is not None
        self.images.copy_(images)
        self.labels.copy_(labels)
        self.replay()
        return self.loss.clone()

    def _record(self, capture: Capture, images: Images, labels: Targets) -> bool:
        """Capture a step on buffers of this shape; say whether it worked."""
        self.images, self.labels = images.clone(), labels.clone()
        self.optimizer.zero_grad(set_to_none=True)
        try:
            self.loss, self.replay = capture.record(lambda: self._descend(self.images, self.labels))
        except RuntimeError as problem:
            self.capture = None
            self.note = f"steps are not captured as a CUDA graph: {str(problem).strip().splitlines()[0]}"
            return False
        return True


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; one that lives in a tensor is overwritten in place, as a captured step reads it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def step(optimizer: torch.optim.Optimizer, loss: Loss) -> Loss:
    """Take one descent step on a loss and return its value, detached."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()
