"""State dicts, as training scripts save them."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from checkpoint_cases.case import ARCH, CLASSES, Made, Maker, Weights, add, behind, dense, network


def saved(
    name: str = "best.pt",
    wrap: Callable[[Weights], Any] = dict,
    save: Callable[[Any, Path], object] = torch.save,
    **options: Any,
) -> Maker:
    """Save the weights under a name, wrapped as a training script does; ``options`` are those of ``load``."""

    def make(folder: Path) -> Made:
        model = network()
        save(wrap(model.state_dict()), folder / name)
        return Made(source=folder / name, options={"arch": ARCH, **options}, logits=model)

    return make


def half(folder: Path) -> Made:
    """Save in half precision; what must come back is the network with the rounded weights."""
    model = network().half()
    torch.save(model.state_dict(), folder / "half.pt")
    return Made(source=folder / "half.pt", options={"arch": ARCH}, logits=model.float())


def sharded(ending: str) -> Maker:
    """Spread the weights over two files, with an index."""

    def make(folder: Path) -> Made:
        model = network()
        weights = list(model.state_dict().items())
        shards = {f"model-0000{i}-of-00002.{ending}": dict(weights[i - 1 :: 2]) for i in (1, 2)}
        for name, part in shards.items():
            save_file(part, folder / name) if ending == "safetensors" else torch.save(part, folder / name)
        index = folder / f"model.{ending}.index.json"
        index.write_text(json.dumps({"weight_map": {key: name for name, part in shards.items() for key in part}}))
        return Made(source=index, options={"arch": ARCH}, logits=model)

    return make


def lightning(weights: Weights) -> dict[str, Any]:
    """Wrap as a trainer does: prefixed weights, buffers of a metric, and much else."""
    return {
        "pytorch-lightning_version": "2.5.0",
        "state_dict": behind("model.", weights) | {"train_acc.tp": torch.zeros(7), "loss.weight": torch.ones(7)},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": []}],
        "hyper_parameters": {"lr": 0.1},
    }


def with_average(weights: Weights) -> dict[str, Any]:
    """Put other weights under the name of the moving average, before those that count."""
    return {"model": network(seed=4).state_dict(), "model_ema": weights, "epoch": 3}


SOURCE = """from torch import nn


class Net(nn.Sequential):
    def __init__(self, num_classes, width=16):
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, num_classes))
"""


def own_file(folder: Path) -> Made:
    """Save the weights of a network whose class stands in a file of the user's."""
    (folder / "mynet.py").write_text(SOURCE)
    torch.save(dense().state_dict(), folder / "net.pt")
    arch = f"{folder / 'mynet.py'}:Net(num_classes={CLASSES})"
    return Made(source=folder / "net.pt", options={"arch": arch}, logits=dense())


add(
    "state dict, with `--arch`",
    {
        "`.pt`": saved(),
        "`.pth`": saved("best.pth"),
        "`.pth.tar`": saved("best.pth.tar"),
        "`.bin`": saved("pytorch_model.bin"),
        "`.ckpt`": saved("best.ckpt"),
        "no ending": saved("best"),
        "`.pth` of torch before 1.6": saved("old.pth", save=partial(torch.save, _use_new_zipfile_serialization=False)),
        "half precision": half,
        "`.safetensors`": saved("model.safetensors", save=save_file),
        "safetensors called `.bin`, behind `model.`": saved("weights.bin", lambda w: behind("model.", w), save_file),
        "two `.safetensors` and an index": sharded("safetensors"),
        "two `.bin` and an index": sharded("bin"),
        "under `state_dict`, behind `module.`": saved(
            "checkpoint.pth.tar", lambda w: {"epoch": 9, "state_dict": behind("module.", w), "best_acc1": 9.0}
        ),
        "under `model`, with `argparse.Namespace`": saved(wrap=lambda w: {"model": w, "args": Namespace(lr=0.1)}),
        "under `model`, with a NumPy scalar and a path": saved(
            wrap=lambda w: {"model": w, "best_acc": np.float64(0.9), "folder": Path("runs")}
        ),
        "under `model_state_dict`, with its optimiser": saved(
            wrap=lambda w: {"model_state_dict": w, "optimizer_state_dict": {"state": {0: {"step": torch.tensor(1.0)}}}}
        ),
        "under `net`, behind `backbone.`": saved(wrap=lambda w: {"net": behind("backbone.", w), "acc": 93.0}),
        "Lightning": saved("epoch=3.ckpt", lightning),
        "only the moving average": saved(wrap=lambda w: {"ema": {"decay": 0.999, "module": w}, "updates": 5}),
        "stochastic weight averaging": saved(wrap=lambda w: behind("module.", w) | {"n_averaged": torch.tensor(5)}),
        "compiled: behind `_orig_mod.`": saved(wrap=lambda w: behind("_orig_mod.", w)),
        "compiled and parallel": saved(wrap=lambda w: {"model": behind("module._orig_mod.", w)}),
        "weights and their average, with `--key`": saved(wrap=with_average, key="model_ema"),
        "a class in a file: `--arch ./mynet.py:Net(num_classes=7)`": own_file,
        "weights and their average": (saved(wrap=with_average), "--key"),
        "a key in a bare state dict": (saved(key="ema"), "leave the key out"),
        "student and teacher": (
            saved("both.ckpt", lambda w: {"state_dict": behind("student.", w) | behind("teacher.", w)}),
            "--key",
        ),
        "weights of another network": (saved(arch="small-mlp"), "name the architecture that was trained"),
    },
)
