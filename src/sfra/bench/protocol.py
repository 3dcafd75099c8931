"""A protocol declares a benchmark: data, models to make, classes to forget, audits to run. It holds no code.

Protocols are TOML files: those that come with the package, and any of the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sfra.bench.extras import Ablation as Ablation
from sfra.bench.extras import Diagnosed as Diagnosed
from sfra.bench.extras import in_order
from sfra.bench.shapes import check_shapes
from sfra.core.errors import InputError, meant
from sfra.core.text import parse_toml

PUBLISHED = (
    "retrained",
    "finetune",
    "negative-gradient",
    "negative-gradient-plus",
    "random-label",
    "boundary-shrink",
    "learn-to-unlearn",
    "scrub",
    "bad-teacher",
    "salun",
    "delete",
)
"""The methods of a protocol that names none, in the order of the tables."""

CONTROLS = ("masked",)
"""Models that the audit itself is checked with: the original with its forget output switched off."""

REQUIRED = ("name", "dataset", "backbone", "forget")
"""What every protocol says, by itself or by what it extends."""

DEEPEST = 16
"""Protocols in a row, each of which extends the next."""

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a benchmark consists of; checked on creation."""

    name: str
    """Also the name of its store."""
    description: str = ""
    """One line for lists."""
    dataset: str
    """As ``--data`` takes it."""
    backbone: str
    """As ``sfra list backbones`` names it."""
    recipe: str | None = None
    """Name or file of a recipe, a file beside the protocol's; by default the one of the data set and backbone."""
    pretrained: str | None = None
    """Directory or hub id of weights to start from."""
    seeds: tuple[int, ...] = (0,)
    """One original, and everything made of it, for each."""
    forget: tuple[tuple[int, ...], ...]
    """Forget sets, each of one or more classes."""
    methods: tuple[str, ...] = PUBLISHED
    """Registered names, or ``package.module:Class``."""
    controls: tuple[str, ...] = CONTROLS
    """Models that check the audit."""
    audit: Mapping[str, Any] = field(default_factory=dict)
    """Fields of :class:`sfra.AuditConfig` that differ from its defaults."""
    pra: Mapping[str, Any] | None = field(default_factory=dict)
    """Settings of the prototypical control (``variants``, ``k``, ``supports``); None leaves it out."""
    linear_probe: Mapping[str, Any] | None = field(default_factory=dict)
    """Settings of the linear probe; None leaves it out."""
    ablations: tuple[Ablation, ...] = ()
    """Further audits."""
    diagnostics: Diagnosed | None = None
    """Models whose audits are explained; None leaves diagnostics out."""
    feature_type: str = "float32"
    """How features are stored: ``float32``, or ``float16`` for half the disk."""
    limits: Mapping[str, int | float] = field(default_factory=dict)
    """Seconds that a cell may take, by kind; ``default`` for the others."""
    resources: Mapping[str, Mapping[str, int | float]] = field(default_factory=dict)
    """What Ray reserves for a cell, by kind: ``num_cpus`` and ``num_gpus``, fractions allowed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forget", in_order(self.forget))
        _require(
            self.name, bool(self.forget) and all(self.forget), "forget", "one or more sets of classes", self.forget
        )
        twice = [one for one in self.forget if len(set(one)) < len(one)]
        _require(self.name, not twice, "forget", "no class twice in a set", twice)
        seeds = bool(self.seeds) and len(set(self.seeds)) == len(self.seeds)
        _require(self.name, seeds, "seeds", "one or more seeds, none twice", self.seeds)
        distinct = len(set(self.forget)) == len(self.forget) and len(set(self.methods)) == len(self.methods)
        _require(self.name, distinct, "forget and methods", "no entry twice", (self.forget, self.methods))
        known = self.feature_type in ("float32", "float16")
        _require(self.name, known, "feature_type", "float32 or float16", self.feature_type)
        unknown = [name for name in self.controls if name not in CONTROLS]
        _require(self.name, not unknown, "controls", ", ".join(CONTROLS), unknown)
        named_once = len({one.name for one in self.ablations}) == len(self.ablations)
        _require(self.name, named_once, "ablation", "no name twice", [one.name for one in self.ablations])
        for one in self.ablations:
            named = self.methods + self.controls
            _require(
                self.name, set(one.methods or ()) <= set(named), f"ablation {one.name}", "its methods", one.methods
            )
            self._check_forget(f"ablation {one.name}", one.forget)
        if self.diagnostics is not None:
            chosen = {*(self.diagnostics.methods or ()), *self.diagnostics.geometry}
            unknown = sorted(chosen - {*self.methods, *self.controls, *PUBLISHED, *CONTROLS})
            _require(self.name, not unknown, "diagnostics", "methods and controls that there are", unknown)
            self._check_forget("diagnostics", self.diagnostics.forget)

    def _check_forget(self, what: str, sets: tuple[tuple[int, ...], ...] | None) -> None:
        _require(self.name, set(sets or ()) <= set(self.forget), what, "forget sets of the protocol", sets)


def load_protocol(source: str | Path) -> Protocol:
    """Read a protocol by its name, or from a ``.toml`` file.

    >>> load_protocol("digits").backbone
    'small-cnn'
    """
    return _protocol(_resolve(source, ()), str(source))


def protocol_names() -> tuple[str, ...]:
    """List the protocols that come with the package."""
    return tuple(
        sorted(path.name.removesuffix(".toml") for path in _shipped().iterdir() if path.name.endswith(".toml"))
    )


def describe_protocol(name: str) -> str:
    """Describe a protocol in one line."""
    return load_protocol(name).description


def _shipped() -> Traversable:
    return resources.files("sfra.bench") / "protocols"


def _resolve(source: str | Path, seen: tuple[str, ...]) -> dict[str, Any]:
    """Read a file and lay it over the protocol that it extends."""
    content = _read(source)
    if str(content.get("recipe", "")).endswith(".toml"):
        content["recipe"] = str(Path(source).parent / content["recipe"])
    base = content.pop("extends", None)
    if base is None:
        return content
    if not isinstance(base, str):
        raise InputError(f"{source}: extends is of the wrong kind", expected="name or file of a protocol", got=base)
    if base in seen:
        raise InputError(f"the protocol {source} extends itself", got=" → ".join([*seen, base]))
    if len(seen) == DEEPEST:
        raise InputError(
            "protocols extend each other too often",
            expected=f"at most {DEEPEST} in a row",
            got=" → ".join([*seen[:3], "…", base]),
        )
    near = Path(source).parent / base
    return _resolve(near if str(base).endswith(".toml") else base, (*seen, str(base))) | content


def _read(source: str | Path) -> dict[str, Any]:
    path: Traversable = Path(source)
    if not str(source).endswith(".toml"):
        path = _shipped() / f"{source}.toml"
        if str(source) not in protocol_names():
            raise InputError(
                "there is no such protocol",
                expected=f"{', '.join(protocol_names())}, or the path of a .toml file",
                got=source,
                do=meant(source, protocol_names()) or "choose one of sfra list protocols",
            )
    if not path.is_file():
        raise InputError("there is no such file", got=source, do="check the path")
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"the protocol {source} cannot be read", expected="a TOML file", got=problem) from None


def _protocol(content: Mapping[str, Any], source: str) -> Protocol:
    check_shapes(content, source)
    missing = [name for name in REQUIRED if name not in content]
    if missing:
        raise InputError(
            f"{source} is not a protocol", expected="name, dataset, backbone and forget", got=f"no {', '.join(missing)}"
        )
    given = {name: value for name, value in content.items() if name != "ablation"}
    if "diagnostics" in given:
        table = given["diagnostics"]
        given["diagnostics"] = table and Diagnosed(**{name: _frozen(value) for name, value in table.items()})
    for name in ("pra", "linear_probe", "diagnostics"):
        if given.get(name) is False:
            given[name] = None
    return Protocol(
        **{name: _frozen(value) for name, value in given.items()},
        ablations=tuple(_ablation(one, source) for one in content.get("ablation", ())),
    )


def _ablation(content: Mapping[str, Any], source: str) -> Ablation:
    try:
        return Ablation(**{name: _frozen(value) for name, value in content.items()})
    except TypeError as problem:
        raise InputError(f"an ablation of {source} cannot be read", expected="name and vary", got=problem) from None


def _frozen(value: Any) -> Any:
    """Turn arrays into tuples, at every depth but inside tables."""
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def _require(name: str, holds: bool, what: str, expected: str, got: object) -> None:
    if not holds:
        raise InputError(f"the protocol {name}: {what} cannot be used", expected=expected, got=got)
