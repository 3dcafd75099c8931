"""Audits of networks on images, end to end."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sfra
import sfra.data.features as features_module
from builders.audits import QUICK
from sfra.auditing.audit import audit
from sfra.auditing.result import AuditReport
from sfra.data import FeatureSet, load_data
from sfra.models.backbones import build, input_shape
from sfra.models.backbones.checkpoint import load_model, save_model
from sfra.models.backbones.images import default_preprocess
from sfra.release.huggingface import quiet


def digits(split: Any) -> tuple[Tensor, Tensor]:
    data = load_data("digits", split=split)
    assert not isinstance(data, FeatureSet)
    return torch.cat(list(data.batches(2000))), data.labels


def network(kept: Tensor, images: Tensor, labels: Tensor, seed: int) -> nn.Sequential:
    """Train a small network on some of the digits."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
        optimiser = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.05)
        for _ in range(80):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(images[kept]), labels[kept]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net


@pytest.fixture(scope="module")
def nets() -> tuple[nn.Module, nn.Module]:
    """A network whose output for the threes is switched off, in training mode; and one that never saw a three."""
    images, labels = digits("train")
    model = network(torch.ones_like(labels, dtype=torch.bool), images, labels, seed=0)
    last = model[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight[3] = 0.0
        last.bias[3] = -15.0
    return model, network(labels != 3, images, labels, seed=1).eval()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def audit_digits(model: object, reference: object | None = None, **more: Any) -> AuditReport:
    return audit(model, 3, data="digits", reference=reference, n=5000, m=100, epochs=20, threads=1, **more)


def test_networks_are_audited_end_to_end_and_left_as_they_are(
    nets: tuple[nn.Module, nn.Module], cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, reference = nets
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stages: list[str] = []
    report = audit_digits(model, reference, progress=lambda stage, done, total: stages.append(stage))
    assert report.delta_rs is not None
    assert report.class_names == tuple("0123456789")
    assert report.forget.before == 0.0
    assert report.retain.before is not None
    assert report.retain.before > 0.9
    assert report.data is not None
    assert report.data.source == "digits (test)"
    assert stages[0] == "extracting features"
    assert "auditing (drawing probes 10 of 10)" in stages

    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert model.training
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())

    assert len(list(cached.rglob("*.safetensors"))) == 4  # test and validation split, of model and reference

    def never(*parts: object) -> None:
        raise AssertionError("features were extracted again")

    monkeypatch.setattr(features_module, "_encode", never)
    again = audit_digits(model, reference)
    assert [row.rs for row in again.results] == [row.rs for row in report.results]
    with pytest.raises(AssertionError, match="extracted again"):
        audit_digits(model, cache=False)


def test_the_encoder_is_measured_in_eval_mode(nets: tuple[nn.Module, nn.Module]) -> None:
    images, labels = digits("test")
    model = nets[0]
    model.eval()
    try:
        with torch.no_grad():
            right = model(images).argmax(1) == labels
    finally:
        model.train()
    report = audit_digits(model, cache=False)
    assert report.retain.before == pytest.approx(float(right[labels != 3].double().mean()))


def test_a_state_dict_shares_its_architecture_with_a_reference_given_as_a_path(tmp_path: Path) -> None:
    for name, seed in (("model", 0), ("reference", 1)):
        torch.save(build("small-mlp", classes=10, seed=seed).state_dict(), tmp_path / f"{name}.pt")
    settings: dict[str, Any] = {"data": "digits", "arch": "small-mlp", "cache": False, **QUICK}
    report = audit(tmp_path / "model.pt", 3, reference=tmp_path / "reference.pt", **settings)
    [reference] = report.references
    assert reference.width == report.model.width

    other = sfra.load(tmp_path / "reference.pt", arch="small-mlp")
    other.head.save(tmp_path / "head.npz")  # no state dict: the architecture is not meant for it
    images, labels = digits("test")
    assert other.encoder is not None
    own = other.encoder(images), labels
    again = audit(tmp_path / "model.pt", 3, reference=str(tmp_path / "head.npz"), reference_data=own, **settings)
    assert again.delta_rs == report.delta_rs


@pytest.mark.parametrize("name", ["resnet18", "swin-t"])
def test_a_network_of_the_paper_is_saved_loaded_and_audited_at_its_real_size(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import_module("sfra.models.backbones.pretrained")
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.arange(6) % 3
    prepare = default_preprocess(name, (3, 32, 32), mean=(0.5,), std=(0.25,))
    assert prepare.size == input_shape(name)[1:]
    model = build(name, classes=3, seed=0).eval()
    folder = save_model(
        tmp_path / "net", model, backbone=name, classes=3, preprocess=prepare, class_names=["cat", "dog", "ox"]
    )
    try:
        expected = logits_of(model, prepare(images[:2]))
        assert expected.shape == (2, 3)
        found = load_model(folder)
        assert found.preprocess == prepare
        assert torch.equal(logits_of(found.model, prepare(images[:2])), expected)
        del found, model
        with quiet():
            again = transformers.AutoModelForImageClassification.from_pretrained(folder)
        torch.testing.assert_close(logits_of(again, prepare(images[:2])), expected, rtol=1e-4, atol=1e-5)
        del again
        report = audit(folder, "dog", data=(images, labels), cache=False, **QUICK)
    finally:
        shutil.rmtree(folder)
    assert report.class_names == ("cat", "dog", "ox")
    assert report.forget.before is not None
    assert report.model.width == (512 if "resnet" in name else 768)
    assert name in report.model.source or "ForImageClassification" in report.model.source


def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        output = model.eval()(images)
    logits = getattr(output, "logits", output)
    assert isinstance(logits, Tensor)
    return logits
