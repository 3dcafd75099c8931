"""Protocols: declarations that come with the package or from the user, checked before anything runs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from sfra import unlearn
from sfra.bench.engine.cell import reachable
from sfra.bench.plan import parse_only, plan
from sfra.bench.protocol import (
    PUBLISHED,
    Ablation,
    Diagnosed,
    Kind,
    Protocol,
    load_protocol,
    protocol_names,
)
from sfra.core.errors import InputError
from sfra.models import recipes

PAPER = {
    "cifar10-resnet18": (500_000, 500, [(k,) for k in range(10)]),
    "cifar100-resnet18": (100_000, 50, [(k,) for k in range(0, 100, 10)]),
    "tinyimagenet-resnet18": (50_000, 25, [(k,) for k in range(0, 200, 20)]),
    "cifar10-resnet18-multi": (500_000, 500, [(1, 6)]),
    "cifar100-resnet18-multi": (
        50_000,
        100,
        [(25, 58), (23, 25, 38, 58, 96), (23, 25, 38, 49, 51, 54, 58, 66, 96, 98)],
    ),
}
"""N, M and forget sets of the published protocol."""


def write(tmp_path: Path, text: str, name: str = "own.toml") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", protocol_names())
def test_every_protocol_can_be_planned_and_described(name: str) -> None:
    protocol = load_protocol(name)
    assert protocol.name == name
    assert protocol.description
    goals = plan(protocol)
    per_model = len(protocol.methods) + len(protocol.controls)
    mains = [goal for goal in goals if goal.identity.get("audit") == "main"]
    assert len(mains) == per_model * len(protocol.forget) * len(protocol.seeds)
    assert protocol.recipe is None or protocol.recipe in recipes.names()


@pytest.mark.parametrize("name", PAPER)
def test_the_published_settings_are_those_of_the_paper(name: str) -> None:
    protocol = load_protocol(name)
    n, m, forget = PAPER[name]
    assert (protocol.audit["n"], protocol.audit["m"]) == (n, m)
    assert list(protocol.forget) == forget
    assert protocol.audit["seeds"] == 3
    assert protocol.audit["epochs"] == 500


def test_all_eleven_methods_are_run_unless_a_protocol_says_otherwise() -> None:
    assert set(PUBLISHED) == set(unlearn.names()) - {"masked"}
    assert load_protocol("digits").methods == PUBLISHED


def test_a_protocol_of_the_user_extends_one_by_name_or_by_file(tmp_path: Path) -> None:
    write(tmp_path, 'name = "base"\nextends = "digits"\nforget = [[1]]\n', "base.toml")
    own = write(tmp_path, 'name = "own"\nextends = "base.toml"\nseeds = [3, 4]\npra = false\n')
    protocol = load_protocol(own)
    assert (protocol.dataset, protocol.forget, protocol.seeds, protocol.pra) == ("digits", ((1,),), (3, 4), None)
    assert protocol.linear_probe == {}


OWN = "name = 'a'\nextends = 'digits'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN + "forgte = [[1]]", "is not a protocol[^$]*unknown field `forgte`"),
        ("name = 'a'", "is not a protocol[^$]*missing required field"),
        (OWN + "forget = []", "forget is empty"),
        (OWN + "forget = [3]", r"Expected `array`, got `int` - at `\$\.forget\[0\]`"),
        (OWN + "limits = {train = -3}", r"Expected `float` > 0\.0"),
        (OWN + "forget = [[1], [1]]", "forget is empty or names one twice"),
        (OWN + "forget = [[1, 1]]", "forget is empty or names one twice"),
        (OWN + "controls = ['hidden']", r"'hidden' - at .\$\.controls"),
        (OWN + "limits = {sleep = 3}", r"'sleep' - at .key. in .\$\.limits"),
        (OWN + "[[ablation]]\nname='x'\nvary={m=[9]}\nmethods=['magic']", "ablation x names what"),
        (OWN + "[diagnostics]\ngeometry = ['magic']", "diagnostics names what"),
        (OWN + "[diagnostics]\nforget = [[8]]", "diagnostics names what"),
        ("name = 'a'\nextends = 'own.toml'", "extends itself"),
        ("name = 'a'\nextends = 3", "extends is of the wrong kind"),
        ("name = ", "cannot be read"),
    ],
)
def test_a_protocol_that_cannot_be_run_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_protocol(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[audit]\nepoch = 3", "these audit settings cannot be used"),
        ('methods = ["magic"]', "unknown unlearning method"),
        ("[pra]\nk = 0", r"\[pra\] of a cannot be used"),
        ("[linear_probe]\npatient = 3", r"\[linear_probe\] of a cannot be used"),
        ('recipe = "cifar10-resnet18-small"', "recipe is one for something else"),
    ],
)
def test_wrong_settings_are_refused_when_planned(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(load_protocol(write(tmp_path, OWN + text)))


KEYS = {
    "digits-tiny": "42b59431239f1e03",
    "digits": "37df9f22d1e24dd7",
    "cifar10-resnet18-ablations": "9a73900a4528af92",
    "cifar100-resnet18-multi": "082a1f9b0bccc1fb",
}
"""Begin of the SHA-256 of all keys and labels: stores and archives that people have must be found again."""


@pytest.mark.parametrize("name", KEYS)
def test_the_keys_of_a_protocol_never_change(name: str) -> None:
    cells = reachable(goal.cell for goal in plan(load_protocol(name)))
    text = "\n".join(f"{key} {cell.label}" for key, cell in sorted(cells.items()))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == KEYS[name]


def test_the_order_of_classes_does_not_make_other_cells() -> None:
    protocol = load_protocol("digits-tiny")
    turned, ordered = (plan(replace(protocol, forget=(classes,))) for classes in ((6, 1), (1, 6)))
    assert [goal.cell for goal in turned] == [goal.cell for goal in ordered]


def test_every_kind_of_cell_may_have_a_limit() -> None:
    cells = reachable(goal.cell for goal in plan(load_protocol("digits")))
    assert set(get_args(Kind)) == {cell.kind for cell in cells.values()}


def test_models_and_references_are_shared_by_everything_that_needs_them() -> None:
    protocol = Protocol(
        name="shared",
        dataset="digits",
        backbone="small-cnn",
        forget=((3,), (7,)),
        methods=("retrained", "delete"),
        ablations=(Ablation(name="scores", vary={"score": ["softmax", "energy"]}),),
    )
    goals = plan(protocol)
    keys = {goal.cell.key for goal in goals if goal.what == "audit"}
    assert len([goal for goal in goals if goal.what == "audit"]) == 3 * 2 * 3
    assert len(keys) == 3 * 2 * 2  # softmax is the main audit over again: the same cell
    references = {goal.cell.needs["reference"].key for goal in goals if "reference" in goal.cell.needs}
    own = {goal.cell.key for goal in goals if goal.what == "audit" and goal.identity["method"] == "retrained"}
    assert references == own


def test_without_references_none_is_trained_and_audits_have_none() -> None:
    protocol = replace(load_protocol("digits-tiny"), methods=("delete",), references=False)
    goals = plan(protocol)
    assert not any("reference" in goal.cell.needs for goal in goals)
    trained = [cell for cell in reachable(goal.cell for goal in goals).values() if cell.kind == "train"]
    assert [cell.settings["without"] for cell in trained] == [[]]


def test_a_part_can_be_chosen_and_a_wrong_part_is_refused() -> None:
    protocol = load_protocol("digits")
    goals = plan(protocol, parse_only("method=delete,forget=1+6"))
    assert {goal.what for goal in goals} == {"audit", "pra", "linear-probe", "diagnostics"}
    assert {goal.identity["forget"] for goal in goals} == {"1+6"}
    with pytest.raises(InputError, match="forget=8"):
        plan(protocol, {"forget": "8"})
    with pytest.raises(InputError, match="selection cannot be read"):
        parse_only("delete")


def test_diagnostics_are_further_cells_and_change_no_other() -> None:
    protocol = load_protocol("digits")
    assert protocol.diagnostics is not None
    mine = ("diagnostics", "geometry")
    whole, bare = plan(protocol), plan(replace(protocol, diagnostics=None))
    others = [goal for goal in whole if goal.what not in mine]
    assert [goal.cell.key for goal in others] == [goal.cell.key for goal in bare]
    known = {cell.kind for cell in reachable(goal.cell for goal in bare).values()}
    assert not known & set(mine)
    needed = reachable(goal.cell for goal in whole if goal.what in mine)
    fresh = {key for key, cell in needed.items() if cell.kind not in mine} - set(reachable(goal.cell for goal in bare))
    assert not fresh


def test_diagnostics_are_of_the_models_asked_for_and_of_the_probes_alone() -> None:
    base = load_protocol("digits")

    def chosen(**changes: Any) -> list[tuple[str, object, object]]:
        goals = plan(replace(base, **changes))
        return [
            (g.what, g.identity["method"], g.identity["forget"]) for g in goals if g.what in ("diagnostics", "geometry")
        ]

    everything = chosen(diagnostics=Diagnosed())
    assert len(everything) == 12 * 4
    some = Diagnosed(methods=("delete",), forget=((6, 1), (7,)), geometry=("masked", "delete"))
    assert sorted(chosen(diagnostics=some)) == [
        *(("diagnostics", "delete", name) for name in ("1+6", "7")),
        *(("geometry", name, "1+6") for name in ("delete", "masked")),
    ]
    fewer = chosen(diagnostics=some, methods=("retrained",), controls=())
    assert fewer == []

    def keys(audit: dict[str, object]) -> list[str]:
        goals = plan(replace(base, audit=audit), {"what": "diagnostics"})
        return [goal.cell.key for goal in goals]

    assert keys({"epochs": 3, "learning_rate": 0.1, "reset_row": False}) == keys({})
    assert not set(keys({"m": 100})) & set(keys({}))
    assert not set(keys({"scale": "native"})) & set(keys({}))


def test_everything_that_decides_a_result_is_in_its_key() -> None:
    base = load_protocol("digits-tiny")

    def keys(**changes: Any) -> set[str]:
        return {goal.cell.key for goal in plan(replace(base, **changes), {"method": "delete", "what": "audit"})}

    same = keys(name="another", description="other words", limits={"default": 1.0}, resources={})
    assert same == keys()
    for change in ({"seeds": (1,)}, {"audit": {"n": 2000, "m": 50, "epochs": 11}}, {"feature_type": "float16"}):
        assert not keys(**change) & keys()
    assert not keys(recipe="digits-small-cnn", backbone="small-cnn") & keys()


def test_a_setting_that_audits_got_later_leaves_earlier_keys_as_they_were_and_is_published_there() -> None:
    """The digests are of the keys that stores of the reproduction were filled under."""
    known = {
        "cifar10-resnet18-published": "2fecbc1fedf69813",
        "cifar100-resnet18": "8a5d964fa4527fe6",
        "cifar10-resnet18-224": "0fc6f6edc260f6c1",
        "digits": "58fb2bc80bf60b3f",
    }
    for name, digest in known.items():
        keys = "".join(goal.cell.key for goal in plan(load_protocol(name)))
        assert hashlib.sha256(keys.encode()).hexdigest().startswith(digest), name
    base = load_protocol("digits-tiny")

    def weights(audit: dict[str, object]) -> set[object]:
        goals = plan(replace(base, audit=audit), {"what": "audit"})
        return {goal.cell.settings["config"].get("forget_weight", "left out") for goal in goals}

    assert weights({}) == weights({"forget_weight": "published"}) == {"left out"}
    assert weights({"forget_weight": "balanced"}) == {"balanced"}


def test_a_setting_that_a_method_got_later_leaves_earlier_keys_as_they_were() -> None:
    def settings(name: str) -> dict[str, object]:
        goals = plan(load_protocol(name), {"what": "pra", "method": "salun", "forget": "0"})
        return dict(goals[0].cell.needs["test"].needs["model"].settings["settings"])

    assert "retain" not in settings("cifar10-resnet18")
    assert settings("cifar10-resnet18-224")["retain"] is False
