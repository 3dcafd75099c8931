"""Checkpoints that other packages write, made with them where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from checkpoint_cases.case import CLASSES, EXAMPLE, Case, Made, Maker, add, dense, silent
from checkpoint_cases.directories import PATCHES, Plain, build, save

OTHERS: dict[str, Case] = {}
"""Cases by what they are; their group is the package that they need."""


def adapted(target: str, what: str) -> Maker:
    """Adapt a layer with PEFT: the module, its directory, its state dict, or what is left after the merge."""

    def make(folder: Path) -> Made:
        peft = import_module("peft")
        with silent():
            model = build("vit", **PATCHES)
            model = peft.get_peft_model(model, peft.LoraConfig(target_modules=[target], r=4, init_lora_weights=False))
            model.eval()
            if what == "module":
                return Made(source=model, logits=Plain(model), shape=(3, 32, 32))
            if what == "state dict":
                torch.save(model.state_dict(), folder / "model.pt")
                return Made(source=folder / "model.pt")
            whole = model.merge_and_unload() if what == "merged" else model
            return Made(source=save(whole, folder), logits=Plain(whole), shape=(3, 32, 32))

    return make


def trained(folder: Path) -> Made:
    """Let the trainer of Lightning write a checkpoint."""
    lightning = import_module("pytorch_lightning")

    class Module(lightning.LightningModule):  # type: ignore[name-defined,misc]
        """A network with a step that learns nothing."""

        def __init__(self) -> None:
            super().__init__()
            self.net, self.rate = dense(), 0.1
            self.save_hyperparameters({"rate": self.rate, "name": "dense"})

        def training_step(self, batch: Any, _: int) -> Any:
            return self.net(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    silence: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    with silent():
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_checkpointing=False, **silence)
        model = Module()
        trainer.fit(model, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(EXAMPLE), batch_size=2))
        trainer.save_checkpoint(folder / "last.ckpt")
    return Made(source=folder / "last.ckpt", options={"arch": dense}, logits=model.net.eval())


def quantised(quantise: Callable[[nn.Module], object], *, file: bool) -> Maker:
    """Quantise the weights of a network, and pass it or its state dict."""

    def make(folder: Path) -> Made:
        model = dense()
        with silent():
            quantise(model)
        if not file:
            return Made(source=model, options={"example": EXAMPLE}, logits=model)
        torch.save(model.state_dict(), folder / "small.pt")
        return Made(source=folder / "small.pt")

    return make


def with_torchao(model: nn.Module) -> None:
    """Quantise in place."""
    quantization = import_module("torchao.quantization")
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())


def with_quanto(model: nn.Module) -> None:
    """Quantise in place."""
    quanto = import_module("optimum.quanto")
    quanto.quantize(model, weights=quanto.qint8)
    quanto.freeze(model)


def with_bitsandbytes(model: nn.Module) -> None:
    """Put a layer of eight bits in the place of the last one; its first call makes them."""
    assert isinstance(model, nn.Sequential)
    model[3] = import_module("bitsandbytes").nn.Linear8bitLt(16, CLASSES, has_fp16_weights=False)
    with torch.no_grad():
        model(EXAMPLE)


def fitted(name: str) -> Maker:
    """Export an estimator of scikit-learn."""

    def make(folder: Path) -> Made:
        skl2onnx = import_module("skl2onnx")
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier

        draws = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
        estimator = LogisticRegression() if name == "regression" else MLPClassifier((8,), max_iter=20, random_state=0)
        with silent():
            estimator.fit(draws, np.arange(60) % 3)
            graph = skl2onnx.to_onnx(estimator, draws[:1], options={"zipmap": False})
        (folder / "model.onnx").write_bytes(graph.SerializeToString())
        if name == "regression":
            return Made(source=folder / "model.onnx")
        layers = (*estimator.coefs_, *estimator.intercepts_)
        first, last, shift, bias = (torch.from_numpy(part).float() for part in layers)
        return Made(
            source=folder / "model.onnx",
            logits=lambda x: torch.relu(x @ first + shift) @ last + bias,
            shape=(4,),
        )

    return make


MERGE, WHOLE = "merge_and_unload", "dequantize"
add(
    "peft",
    {
        "PEFT: a module, attention adapted": adapted("q_proj", "module"),
        "PEFT: merged, attention adapted": adapted("q_proj", "merged"),
        "PEFT: merged, head adapted": adapted("classifier", "merged"),
        "PEFT: a module, head adapted": (adapted("classifier", "module"), MERGE),
        "PEFT: a directory": (adapted("q_proj", "directory"), MERGE),
        "PEFT: a state dict": (adapted("q_proj", "state dict"), MERGE),
    },
    OTHERS,
)
add("pytorch_lightning", {"Lightning: a checkpoint of its trainer": trained}, OTHERS)
add(
    "torchao",
    {
        "torchao: a module, weights of eight bits": quantised(with_torchao, file=False),
        "torchao: a state dict": (quantised(with_torchao, file=True), WHOLE),
    },
    OTHERS,
)
add(
    "optimum.quanto",
    {
        "quanto: a module, weights of eight bits": quantised(with_quanto, file=False),
        "quanto: a state dict": (quantised(with_quanto, file=True), WHOLE),
    },
    OTHERS,
)
add(
    "bitsandbytes",
    {
        "bitsandbytes: a module, the head of eight bits": (quantised(with_bitsandbytes, file=False), WHOLE),
        "bitsandbytes: a state dict": (quantised(with_bitsandbytes, file=True), WHOLE),
    },
    OTHERS,
)
add(
    "skl2onnx",
    {
        "skl2onnx: a network": fitted("network"),
        "skl2onnx: a logistic regression": (fitted("regression"), r"model\.coef_"),
    },
    OTHERS,
)
