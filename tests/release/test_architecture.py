"""Architectures: files, modules in the working folder, other packages, classes; arguments are literals."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from sfra.core.errors import InputError, MissingPackageError
from sfra.release import load
from sfra.release.factory import parse_arguments

CODE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes=5, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.fc(self.body(x))

class Box:
    Net = Net

def number():
    return 3
"""


class Net(nn.Module):
    def __init__(self, num_classes: int = 4, width: int = 9) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.fc(self.body(x))
        return logits


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the weights of a network of one's own."""
    monkeypatch.chdir(tmp_path)
    torch.save(Net().state_dict(), tmp_path / "net.pt")
    return tmp_path


@pytest.mark.parametrize(
    "arch",
    [
        "mine_{}:Net(num_classes=4, width=9)",
        "mine_{}:Net(4, 9)",
        "mine_{}:Box.Net?num_classes=4&width=9",
        "./mine_{}.py:Net(num_classes=4, width=9)",
        "mine_{}.py:Net(4, width=9)",
        "{folder}/mine_{}.py:Net?num_classes=4&width=9",
    ],
)
def test_a_module_or_file_in_the_working_folder_is_found(
    folder: Path, arch: str, request: pytest.FixtureRequest
) -> None:
    number = request.node.callspec.indices["arch"]  # a module is imported once: each case has its own
    (folder / f"mine_{number}.py").write_text(CODE)
    before = list(sys.path)
    release = load("net.pt", arch=arch.format(number, folder=folder))
    assert (release.head.classes, release.head.width) == (4, 9)
    assert sys.path == before


def test_a_file_finds_its_neighbours(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "layers_of_mine.py").write_text(CODE)
    (folder / "deep" / "top.py").write_text("from layers_of_mine import Net\ndef make(): return Net(4, 9)\n")
    assert load("net.pt", arch="deep/top.py:make").head.classes == 4
    (folder / "above_of_mine.py").write_text("from layers_of_mine import Net\ndef make(): return Net(4, 9)\n")
    (folder / "deep" / "under.py").write_text("from above_of_mine import make\n")
    assert load("net.pt", arch="deep/under.py:make").head.classes == 4


def test_a_file_with_relative_imports_is_a_part_of_its_package(folder: Path) -> None:
    (folder / "nets" / "small").mkdir(parents=True)
    for package in ("nets", "nets/small"):
        (folder / package / "__init__.py").write_text("")
    (folder / "nets" / "layers.py").write_text(CODE)
    (folder / "nets" / "small" / "top.py").write_text("from ..layers import Net\ndef make(): return Net(4, 9)\n")
    assert load("net.pt", arch="./nets/small/top.py:make").head.classes == 4
    (folder / "alone.py").write_text("from .layers import Net\n")
    with pytest.raises(InputError, match=r"(?s)alone.py cannot be imported.*--arch package.module:Net"):
        load("net.pt", arch="./alone.py:Net")


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("./mine.py:Nett", r"(?s)there is no Nett in ./mine.py.*write Net, if you mean that"),
        ("./mine.py:Net?classes=4", r"mine.py:Net cannot be called with these arguments"),
        ("./mine.py:number", r"mine.py:number does not build a model"),
        ("./none.py:Net", r"the file of --arch does not exist"),
        *((arch, r"(?s)there is no .*package:factory") for arch in ("..a:b", ".:b", ":b", "os:", "alexnet")),
    ],
)
def test_what_leads_to_no_model_is_refused_with_the_reason(folder: Path, arch: str, message: str) -> None:
    (folder / "mine.py").write_text(CODE)
    with pytest.raises(InputError, match=message):
        load("net.pt", arch=arch)


@pytest.mark.parametrize("arch", [Net, lambda: Net(4, 9), Net(4, 9)], ids=["class", "function", "model"])
def test_in_python_an_architecture_is_what_builds_it(folder: Path, arch: Any) -> None:
    weights = {name: value.clone() for name, value in arch.state_dict().items()} if isinstance(arch, nn.Module) else {}
    release = load("net.pt", arch=arch)
    assert torch.equal(release.head.weight, torch.load("net.pt", weights_only=True)["fc.weight"])
    assert release.source.startswith(f"state dict net.pt ({__name__}:")
    assert all(torch.equal(arch.state_dict()[name], value) for name, value in weights.items())


@pytest.mark.parametrize("arch", ["a_name_of_mine:Net", "a_name_of_mine.models:Net(3)"])
def test_a_missing_module_of_ones_own_is_never_to_be_installed(folder: Path, arch: str) -> None:
    with pytest.raises(
        MissingPackageError, match=r"(?s)there is no module a_name_of_mine.*\./a_name_of_mine\.py:Net"
    ) as got:
        load("net.pt", arch=arch)
    assert "pip" not in str(got.value)


def test_what_a_module_needs_is_named_and_not_installed_blindly(folder: Path) -> None:
    (folder / "needs.py").write_text("import a_private_thing\n")
    for arch in ("needs:Net", "./needs.py:Net"):
        with pytest.raises(InputError, match=r"(?s)needs.* cannot be imported.*a_private_thing") as caught:
            load("net.pt", arch=arch)
        assert "pip" not in str(caught.value)


@pytest.mark.parametrize("code", ["def broken(:", "raise RuntimeError('no')", "1 / 0"])
def test_a_file_that_fails_is_one_message(folder: Path, code: str) -> None:
    (folder / "fails.py").write_text(code)
    for arch in ("fails:Net", "./fails.py:Net"):
        with pytest.raises(InputError, match=r"fails.* cannot be imported"):
            load("net.pt", arch=arch)


@pytest.mark.parametrize(
    "text",
    [
        "(__import__('os').mkdir('marker'))",
        "(x=print)",
        "(**{'a': 1})",
        "(*[1])",
        "(1)(2)",
        "(1",
        "(9**9**9)",
        "(" + "(" * 5000 + ")" * 5000 + ")",
    ],
)
def test_arguments_that_are_no_literals_are_refused_unevaluated(folder: Path, text: str) -> None:
    (folder / "plain.py").write_text(CODE)
    with pytest.raises(InputError, match=r"arguments of the architecture cannot be read|there is no architecture"):
        load("net.pt", arch=f"./plain.py:Net{text}")
    assert not (folder / "marker").exists()


@pytest.mark.parametrize(
    ("arch", "way"),
    [("resnet-18", "write resnet18"), ("resnet50", "torchvision:resnet50"), ("./plain.py", r"\./plain\.py:Net")],
)
def test_a_name_without_its_place_is_refused_with_the_way_out(folder: Path, arch: str, way: str) -> None:
    with pytest.raises(InputError, match=f"(?s)there is no architecture.*small-cnn.*do: .*{way}"):
        load("net.pt", arch=arch)


def test_arguments_of_both_forms_are_the_same() -> None:
    assert parse_arguments("(a=3, b='x', c=None, d=False)") == parse_arguments("?a=3&b=x&c=None&d=false")


def look_alike(monkeypatch: pytest.MonkeyPatch, package: str, creator: str) -> list[dict[str, Any]]:
    """Put a package in place of one that is not installed; record how models are asked for."""
    asked: list[dict[str, Any]] = []

    def create(name: str, num_classes: int = 1000, **more: Any) -> nn.Module:
        asked.append({"name": name, "num_classes": num_classes, **more})
        if name != "net_16.a1":
            raise ValueError(f"Unknown model {name}")
        return Net(num_classes, **more)

    module = ModuleType(package)
    models = ModuleType(f"{package}.models")
    setattr(models if package == "torchvision" else module, creator, create)
    module.models = models  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package, module)
    monkeypatch.setitem(sys.modules, f"{package}.models", models)
    return asked


@pytest.mark.parametrize(("package", "creator"), [("torchvision", "get_model"), ("timm", "create_model")])
def test_models_of_torchvision_and_timm_go_by_their_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, creator: str
) -> None:
    asked = look_alike(monkeypatch, package, creator)
    release = load("net.pt", arch=f"{package}:net_16.a1(width=9)")
    assert (release.head.classes, asked[-1]) == (4, {"name": "net_16.a1", "num_classes": 4, "width": 9})
    assert load("net.pt", arch=f"{package}:net_16.a1?num_classes=4&width=9").head.classes == 4
    with pytest.raises(InputError, match=r"fc\.weight \[4, 9\] instead of \[5, 9\]"):
        load("net.pt", arch=f"{package}:net_16.a1(num_classes=5, width=9)")
    with pytest.raises(InputError, match=rf"(?s){package}:nets cannot be called.*Unknown model nets"):
        load("net.pt", arch=f"{package}:nets")


def test_a_function_of_such_a_package_goes_by_its_own_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_alike(monkeypatch, "timm", "create_model")
    assert load("net.pt", arch="timm:create_model('net_16.a1', num_classes=4, width=9)").head.classes == 4


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_a_missing_public_package_is_named_and_the_working_folder_cannot_stand_in_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(sys, "path", [])
    (folder / f"{package}.py").write_text("open('marker', 'w')\n")
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        load("net.pt", arch=f"{package}:resnet50")
    assert not (folder / "marker").exists()
