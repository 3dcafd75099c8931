"""One call for every kind of source, and one clear message for what is none."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sfra.core.errors import InputError, MissingPackageError
from sfra.core.head import Head
from sfra.models import backbones
from sfra.models.backbones.checkpoint import save_model
from sfra.release import LOADERS, architecture, load

HEAD = Head(np.arange(12.0).reshape(4, 3), [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["head.npz", "head.safetensors"])
def test_a_head_file_is_a_release_without_encoder(tmp_path: Path, name: str) -> None:
    HEAD.save(tmp_path / name)
    release = load(tmp_path / name)
    assert torch.equal(release.head.weight, HEAD.weight)
    assert torch.equal(release.head.bias, HEAD.bias)
    assert (release.encoder, release.class_names, release.preprocess) == (None, None, None)
    assert release.fingerprint == HEAD.fingerprint
    assert release.source == f"head file {name}"


def test_the_state_dict_of_a_linear_layer_is_a_head(tmp_path: Path) -> None:
    layer = nn.Linear(3, 4, bias=False)
    torch.save(layer.state_dict(), tmp_path / "linear.pt")
    release = load(tmp_path / "linear.pt")
    assert torch.equal(release.head.weight, layer.weight.detach())
    assert not release.head.bias.any()


def test_heads_and_releases_pass_through() -> None:
    release = load(HEAD)
    assert release.head is HEAD
    assert load(release) is release


def test_an_npz_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "pickled.npz", weight=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"pickled\.npz cannot be read"):
        load(tmp_path / "pickled.npz")


@pytest.mark.parametrize("name", ["missing.pt", "runs/missing.onnx", "missing", "./runs/model", "nothing at all"])
@pytest.mark.parametrize("arch", [None, "mynet:factory"])
def test_a_missing_path_is_refused_without_asking_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arch: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="the file or directory does not exist"):
        load(name, arch=arch)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the directory is empty"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("source", "way"),
    [(None, r"nn\.Module"), (nn.Linear, r"nn\.Module"), ({"fc.weight": torch.zeros(3, 4)}, r"net\.load_state_dict")],
)
def test_what_is_no_model_is_refused(source: object, way: str) -> None:
    with pytest.raises(InputError, match=rf"(?s)this is not a model.*{way}"):
        load(source)


def test_an_architecture_without_a_state_dict_is_refused(tmp_path: Path) -> None:
    HEAD.save(tmp_path / "head.npz")
    for source in (nn.Linear(3, 4), tmp_path, tmp_path / "head.npz", HEAD):
        with pytest.raises(InputError, match=r"(?s)an architecture belongs to a state dict.*small-cnn"):
            load(source, arch="small-cnn")


def test_an_architecture_for_a_folder_leads_to_the_file_of_weights_in_it(tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 4).state_dict(), tmp_path / "best.pt")
    with pytest.raises(InputError, match=r"pass the file itself: .*best\.pt"):
        load(tmp_path, arch="small-cnn")


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("transformers", "hf", "huggingface"), ("onnx", "m.onnx", "onnx"), ("huggingface_hub", "a/b", "huggingface")],
)
def test_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, extra: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "vit"}')
    HEAD.save(folder / "model.safetensors")
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(MissingPackageError, match=f"needs the package {package}") as caught:
        load(name)
    assert f"pip install 'sfra[{extra}]'" in str(caught.value)


def test_a_format_is_the_loader_that_contributing_shows_and_its_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown: dict[str, Any] = {}
    (code,) = re.findall(r"^```python\n(# src/sfra/release/text_head\.py.*?)^```", page, re.M | re.S)
    exec(code, shown)  # noqa: S102 - our own document
    np.savetxt(tmp_path / "mine.head", np.column_stack([HEAD.weight, HEAD.bias]))
    with pytest.raises(InputError, match=r"mine\.head is not a model that can be read"):
        load(tmp_path / "mine.head")
    monkeypatch.setattr("sfra.release.base.LOADERS", [*LOADERS, shown["TextHeadLoader"]()])
    assert load(tmp_path / "mine.head").fingerprint == HEAD.fingerprint
    with pytest.raises(InputError, match=r"this is not a model\n.*a head as text \(\.head\)"):
        load(3)


def test_backbones_are_found_by_a_new_interpreter_that_imports_no_optional_package(tmp_path: Path) -> None:
    model = backbones.build("small-mlp", classes=4, seed=0)
    save_model(tmp_path / "net", model, backbone="small-mlp", classes=4)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    script = f"""
        import sys, sfra
        print(sfra.load({str(tmp_path / "net")!r}).head.classes)
        print(sfra.load({str(tmp_path / "weights.pt")!r}, arch="small-mlp").head.classes)
        print(any(name in sys.modules for name in ("transformers", "onnx", "onnxruntime")))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "4", "False"]


def test_backbones_of_a_broken_package_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint(name="odd", value="no_such_module", group=architecture.GROUP)
    monkeypatch.setattr(architecture, "entry_points", lambda group: [broken])
    architecture._import_announced.cache_clear()
    with pytest.warns(RuntimeWarning, match="backbones could not be loaded: package unknown, entry no_such_module"):
        assert "small-cnn" in architecture.names()
