"""Methods from outside: classes by their address, and what installed packages announce."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.models import net, samples
from sfra import unlearn
from sfra.core.errors import InputError
from sfra.unlearn import registry

METHOD = '''
from dataclasses import dataclass
from sfra.unlearn import Finetune, register, StepMethod

{decorator}
@dataclass(frozen=True, kw_only=True)
class {name}(Finetune):
    """Train on, under another name."""

    epochs: int = 1
'''


def method(name: str, decorator: str = "") -> str:
    return METHOD.format(name=name, decorator=decorator)


class Outside:
    """A folder on ``sys.path`` with modules and installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, name: str, code: str) -> Path:
        path = self.folder / f"{name}.py"
        path.write_text(code, encoding="utf-8")
        return path

    def package(self, name: str, **entries: str) -> None:
        """Install the metadata of a package that announces methods, as an installer would write it."""
        info = self.folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key.replace('_', '-')} = {value}" for key, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[sfra.unlearning_methods]", *lines]))


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Forget, after the test, what it registered, imported and installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_BROKEN", None)
    yield Outside(tmp_path)
    for name in [path.stem for path in tmp_path.glob("*.py")]:
        sys.modules.pop(name, None)


def test_a_class_that_its_module_registers_keeps_its_registered_name(outside: Outside) -> None:
    outside.module("mine", method("Mine", '@register("other-name")'))
    assert unlearn.describe("mine:Mine").name == "other-name"
    assert unlearn.get("other-name") is unlearn.get("mine:Mine")
    assert unlearn.describe("sfra.unlearn.delete:Delete").name == "delete"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("no_such.module:Mine", r"there is no module no_such\.module"),
        ("mine.sub:Mine", r"there is no module mine\.sub"),
        ("mine:Other", r"mine has no Other\n  expected: an unlearning method: .*Mine"),
        ("mine:ten", "this is not an unlearning method"),
        ("mine:Plain", r"(?s)this is not an unlearning method.*a class of another kind"),
        ("mine:StepMethod", "StepMethod is abstract"),
        ("mine:Bare", "Bare is not a dataclass: its settings would be ignored"),
        ("mine:Greedy", "Greedy reads unknown data"),
        ("broken:Mine", r"(?s)broken fails when it is imported.*ZeroDivisionError"),
        ("lacking:Mine", r"(?s)lacking fails when it is imported.*'not_installed'"),
        ("mine:", "not the address of a method"),
        ("./mine.py:Mine", "the file of the method does not exist"),
        ("./mine.py:", "not the address of a method"),
    ],
)
def test_an_address_that_leads_to_no_method_is_refused_with_the_reason(
    outside: Outside, address: str, message: str
) -> None:
    extra = "\nten = 10\nclass Plain: ...\nclass Bare(Finetune):\n    epochs: int = 7\n"
    greedy = method("Greedy").replace("    epochs", '    needs = ("everything",)\n    epochs')
    outside.module("mine", method("Mine") + extra + greedy)
    outside.module("broken", method("Mine", '@register("half")') + "\n1 / 0\n")
    outside.module("lacking", "import not_installed\n")
    with pytest.raises(InputError, match=message):
        unlearn.get(address)
    assert "half" not in unlearn.names()


def test_installed_packages_announce_classes_and_modules(outside: Outside) -> None:
    outside.module("classes", method("Mine"))
    outside.module("registering", method("One", '@register("one")') + method("Two", '@register("two")'))
    outside.package("pack-a", mine="classes:Mine")
    outside.package("pack-b", anything="registering")
    unlearn.get("delete")
    assert "classes" not in sys.modules  # a name of ours is found without loading any plug-in
    assert set(unlearn.names()) >= {"mine", "one", "two", "delete"}
    assert "anything" not in unlearn.names()
    result = unlearn.get("mine")()(net(), samples(), (3,))
    assert (result.method, unlearn.describe("two").name) == ("mine", "two")
    assert unlearn.describe("classes:Mine").name == "mine"


def test_a_broken_plug_in_is_reported_with_its_package_and_the_others_still_load(outside: Outside) -> None:
    outside.module("good", method("Good"))
    outside.module("bad", method("Half", '@register("half")') + "\nimport not_installed\n")
    outside.package("pack-bad", bad="bad:Half")
    outside.package("pack-good", good="good:Good")
    outside.package("pack-wrong", wrong="good:dataclass")
    with pytest.warns(RuntimeWarning) as caught:
        names = unlearn.names()
    texts = sorted(str(warning.message).partition(": ")[2] for warning in caught)
    assert "good" in names
    assert not {"half", "bad", "wrong"} & set(names)
    assert len(texts) == 2
    assert texts[0].startswith("package pack-bad, entry bad = bad:Half: ModuleNotFoundError: No module named")
    assert texts[1].startswith("package pack-wrong, entry wrong = good:dataclass: this is not an unlearning method")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unlearn.names()
    with pytest.raises(InputError, match=r"unknown unlearning method\n(.*\n)+  do: +repair or remove package pack-bad"):
        unlearn.get("half")


def test_a_name_that_is_taken_is_refused_to_the_later_package(outside: Outside) -> None:
    outside.module("one", method("One"))
    outside.module("two", method("Two"))
    outside.package("pack-a", mine="one:One")
    outside.package("pack-b", mine="two:Two")
    outside.package("pack-c", delete="two:Two")
    with pytest.warns(
        RuntimeWarning, match=r"package pack-[bc], .*: an unlearning method of this name exists"
    ) as caught:
        unlearn.names()
    assert [str(w.message).count("got:") for w in caught] == [1, 1]
    assert unlearn.get("mine")().__class__.__name__ == "One"
    assert unlearn.get("delete") is unlearn.Delete


def test_a_method_is_found_by_its_file_once_in_a_process(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    path = outside.module("by_file", method("Mine", '@register("of-a-file")'))
    monkeypatch.chdir(path.parent)
    found = unlearn.get("./by_file.py:Mine")
    assert unlearn.get("./by_file.py:Mine") is found
    assert unlearn.get("of-a-file") is found


def test_the_source_of_a_method_is_that_of_its_file_and_of_its_own_bases(outside: Outside) -> None:
    base = outside.module("source_base", method("Base"))
    text = method("Mine").replace("(Finetune)", "(Base)") + "\n"
    mine = outside.module("source_mine", "from source_base import Base\n" + text)
    before = unlearn.source_of("source_mine:Mine")
    both = b"\0".join(path.read_bytes() for path in (base, mine))
    assert before == hashlib.sha256(both).hexdigest()
    base.write_text(base.read_text() + "# changed\n")
    assert unlearn.source_of("source_mine:Mine") not in (before, None)
    published = [name for name in unlearn.names() if unlearn.get(name).__module__.startswith("sfra.")]
    assert {unlearn.source_of(name) for name in published} == {None}
