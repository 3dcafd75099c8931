"""Set your own unlearning method beside published ones: a benchmark in one file, computed in a temporary folder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from torch import Tensor

from sfra.bench import Protocol, make_report, run_protocol
from sfra.models.training.train import logits
from sfra.unlearn import StepMethod, Task


@dataclass(frozen=True, kw_only=True)
class Uniform(StepMethod):
    """Teach the forget data the uniform answer: descend the cross-entropy to it over F."""

    needs: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 1e-4
    freeze_batch_norm: bool = True

    def plan(self, task: Task) -> Callable[[int], Iterator[Tensor]]:
        """Pass over F."""

        def epoch_losses(epoch: int) -> Iterator[Tensor]:
            for images, _ in task.batches(task.forget):
                yield -logits(task.student, images).log_softmax(1).mean()

        return epoch_losses


MINE = f"{Path(__file__).stem}:Uniform"  # module:Class. Worker processes import the module: they get this one's path

protocol = Protocol(
    name="mine",
    dataset="digits",
    backbone="small-cnn",
    forget=((7,),),
    methods=("retrained", "delete", MINE),
    audit={"n": 50_000, "m": 200},
    pra=None,
    linear_probe=None,
)

if __name__ == "__main__":  # so that a worker which imports this file does not start a benchmark of its own
    with TemporaryDirectory() as folder:
        summary = run_protocol(protocol, folder)
        print(summary)
        print(make_report(protocol, folder).text())
