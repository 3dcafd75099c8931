"""A training that was stopped goes on, and ends with the very weights of one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from builders.models import StopError, moved, net, samples, stop_after
from builders.releases import Bomb
from sfra.core.batches import generators_of
from sfra.core.cpu import one_thread
from sfra.core.errors import InputError
from sfra.models.training.train import Epoch, TensorData, train
from sfra.unlearn import View

SETTINGS: dict[str, Any] = {"epochs": 6, "learning_rate": 0.1, "batch_size": 7, "seed": 5}


class Noisy(TensorData):
    """Draws noise for every image from a generator of its own, as augmentation does."""

    generator = torch.Generator()

    def take(self, index: Tensor) -> Tensor:
        images = super().take(index)
        return images + 0.1 * torch.randn(images.shape, generator=self.generator, dtype=images.dtype)


def noisy() -> Noisy:
    return Noisy(samples().images, samples().labels)


def model() -> nn.Module:
    return net(norm=True, dropout=True)


@pytest.mark.parametrize(("epoch", "optimizer"), [(1, "sgd"), (3, "sgd"), (6, "sgd"), (3, "adamw")])
def test_a_run_stopped_after_any_epoch_goes_on_to_the_same_bits(tmp_path: Path, epoch: int, optimizer: str) -> None:
    first: list[Epoch] = []
    seen: list[Epoch] = []
    settings = SETTINGS | {"optimizer": optimizer}
    whole = train(model(), noisy(), **settings, progress=first.append).state_dict()
    file = tmp_path / "run.resume"
    with pytest.raises(StopError):
        train(model(), noisy(), **settings, checkpoint=file, checkpoint_seconds=0.0, progress=stop_after(epoch))
    ended = train(model(), noisy(), **settings, checkpoint=file, progress=seen.append).state_dict()
    assert all(torch.equal(ended[name], value) for name, value in whole.items())
    assert [(done.epoch, done.resumed) for done in seen] == [(k, k <= epoch) for k in range(1, 7)]
    assert [done.loss for done in seen] == [done.loss for done in first]


def test_a_finished_run_is_kept_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "run.resume"
    seen: list[Epoch] = []
    first = train(model(), samples(), **SETTINGS, checkpoint=file)
    again = train(model(), samples(), **SETTINGS, checkpoint=file, progress=seen.append)
    assert moved(first, again) == 0
    assert all(done.resumed for done in seen)


def test_between_two_writes_time_must_pass(tmp_path: Path) -> None:
    file = tmp_path / "run.resume"
    with pytest.raises(StopError):
        train(model(), samples(), **SETTINGS, checkpoint=file, checkpoint_seconds=3600.0, progress=stop_after(3))
    assert not file.exists()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"learning_rate": 0.2}, "training"),
        ({"seed": 6}, "seed"),
        ({"data": TensorData(samples().images + 1e-6, samples().labels)}, "data"),
        ({"model": net(norm=True, dropout=True, seed=1)}, "starting model"),
    ],
)
def test_the_file_of_another_run_is_refused(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    file = tmp_path / "run.resume"
    own = {"model": model(), "data": samples(), **SETTINGS, "checkpoint": file}
    train(**own)
    with pytest.raises(InputError, match=rf"(?s)belongs to another run.*another {part} in .*delete"):
        train(**own | change)


@pytest.mark.parametrize("name", ["run", "state", "losses", "model", "momenta", "generators"])
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "run.resume"
    train(model(), samples(), **SETTINGS, checkpoint=file)
    whole = file.read_bytes()
    for value in (None, "text", ["text"], {"fc.weight": torch.zeros(2)}):
        file.write_bytes(whole)
        saved = torch.load(file, weights_only=True)
        (saved if name in saved else saved["state"])[name] = value
        torch.save(saved, file) if value is not None else file.write_bytes(b"no such thing")
        with pytest.raises(InputError, match=r"(cannot be read|another run)\n(.*\n)+  do: .*delete"):
            train(model(), samples(), **SETTINGS, checkpoint=file)


def test_a_file_that_would_run_code_is_refused_and_does_not(tmp_path: Path) -> None:
    file = tmp_path / "run.resume"
    torch.save({"format": "sfra.training/2", "run": Bomb(tmp_path / "ran")}, file)
    with pytest.raises(InputError, match="cannot be read"):
        train(model(), samples(), **SETTINGS, checkpoint=file)
    assert not (tmp_path / "ran").exists()


def test_the_generator_of_the_data_is_found_through_views() -> None:
    data = noisy()
    view = View.where(data, data.labels != 3)
    assert generators_of(View.where(view, view.labels != 2)) == [data.generator]
    assert generators_of(samples()) == []


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from builders.models import net, samples
from sfra.models.training.train import train

def slowly(done):
    print(done.epoch, flush=True)
    time.sleep(0.2)

train(net(norm=True, dropout=True), samples(), epochs=40, learning_rate=0.1, batch_size=7,
      checkpoint=Path(sys.argv[1]), checkpoint_seconds=0.0, progress=slowly)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_killed_process_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "run.resume"
    arguments = [sys.executable, "-c", CHILD, str(file), str(Path(__file__).parents[1])]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}) as child:
        assert child.stdout is not None
        while child.stdout.readline().strip() != b"3":
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    seen: list[Epoch] = []
    settings: dict[str, Any] = {"epochs": 40, "learning_rate": 0.1, "batch_size": 7}
    with one_thread():  # as in the killed process: sums depend on the number of threads
        ended = train(model(), samples(), **settings, checkpoint=file, progress=seen.append)
        whole = train(model(), samples(), **settings).state_dict()
    resumed = sum(done.resumed for done in seen)
    assert 3 <= resumed < 40
    assert all(torch.equal(ended.state_dict()[name], value) for name, value in whole.items())
