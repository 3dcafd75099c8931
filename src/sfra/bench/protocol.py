"""A protocol declares a benchmark: data, models to make, classes to forget, audits to run. It holds no code.

Protocols are TOML files: those that come with the package, and any of the user's own.
"""

from __future__ import annotations

import itertools
import os.path
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from sfra.core.checked import LAST_SEED
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

Control = Literal["masked"]
CONTROLS: tuple[Control, ...] = get_args(Control)
"""Models that the audit itself is checked with: the original with its forget output switched off."""

Kind = Literal["train", "unlearn", "mask", "features", "audit", "pra", "linear-probe", "diagnostics", "geometry"]
"""The kinds of cells, which limits and resources are given for."""

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Forget = tuple[int, ...]
ForgetSets = tuple[Annotated[tuple[Whole, ...], Meta(min_length=1)], ...]


class _Chosen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some models of a protocol."""

    methods: tuple[Name, ...] | None = None
    """Only these methods and controls; by default all of the protocol."""
    forget: ForgetSets | None = None
    """Only these forget sets; by default all of the protocol."""

    def __post_init__(self) -> None:
        _sort(self)

    def covers(self, method: str, forget: Forget) -> bool:
        """Say whether a model is one of them."""
        return (self.methods is None or method in self.methods) and (self.forget is None or forget in self.forget)


class Ablation(_Chosen, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Further audits of models that the protocol makes anyway, with one or more settings varied."""

    name: Name
    """Heading under which tables find the audits."""
    vary: dict[str, Annotated[Sequence[Any], Meta(min_length=1)]]
    """Settings of the audit and their values; every combination is run. ``missing_row`` may be one of them."""
    audit: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings that differ from the protocol's in all of these audits."""

    def variants(self) -> list[dict[str, Any]]:
        """List the combinations of the varied settings.

        >>> Ablation(name="size", vary={"m": [100, 200], "n": [5000]}).variants()
        [{'m': 100, 'n': 5000}, {'m': 200, 'n': 5000}]
        """
        return [dict(zip(self.vary, values, strict=True)) for values in itertools.product(*self.vary.values())]


class Diagnosed(_Chosen, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models whose audits are explained: alignment, margin, confidence and support, and maps of some of them.

    Published methods that the protocol does not have are passed over, so that it can extend another with more of them.
    """

    geometry: tuple[Name, ...] = ()
    """Methods and controls that also get a map of samples and probes, for the first of the forget sets."""

    def maps(self, method: str, forget: Forget, of: Sequence[Forget]) -> bool:
        """Say whether a model gets a map, in a protocol of these forget sets.

        >>> Diagnosed(geometry=("delete",)).maps("delete", (3,), [(3,), (7,)])
        True
        """
        first = next((one for one in self.forget or of if one in of), None)
        return method in self.geometry and forget == first


class Pra(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the prototypical control."""

    variants: tuple[Literal["cosine", "l2"], ...] = ("cosine", "l2")
    k: Count = 5
    """Samples of each class."""
    supports: Count = 5
    """Draws of samples."""


class Protocol(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a benchmark consists of; types are checked when it is read from a file, what fits together always."""

    name: Name
    """Also the name of its store."""
    description: str = ""
    """One line for lists."""
    dataset: Name
    """As ``--data`` takes it."""
    backbone: Name
    """As ``sfra list backbones`` names it."""
    recipe: Name | None = None
    """Name or file of a recipe, a file beside the protocol's; by default the one of the data set and backbone."""
    pretrained: Name | None = None
    """Directory or hub id of weights to start from."""
    seeds: tuple[Annotated[int, Meta(ge=0, le=LAST_SEED)], ...] = (0,)
    """One original, and everything made of it, for each."""
    forget: ForgetSets
    """Forget sets, each of one or more classes."""
    methods: tuple[Name, ...] = PUBLISHED
    """Registered names, or ``package.module:Class``."""
    controls: tuple[Control, ...] = CONTROLS
    """Models that check the audit."""
    references: bool = True
    """Whether models are audited beside retrained ones; without, there is no ΔRS, and none is trained for it."""
    audit: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of :class:`sfra.AuditConfig` that differ from its defaults."""
    pra: dict[str, Any] | None = msgspec.field(default_factory=dict)
    """Settings of the prototypical control (``variants``, ``k``, ``supports``); None leaves it out."""
    linear_probe: dict[str, float | int] | None = msgspec.field(default_factory=dict)
    """Settings of the linear probe; None leaves it out."""
    ablations: tuple[Ablation, ...] = ()
    """Further audits."""
    diagnostics: Diagnosed | None = None
    """Models whose audits are explained; None leaves diagnostics out."""
    feature_type: Literal["float32", "float16"] = "float32"
    """How features are stored: ``float32``, or ``float16`` for half the disk."""
    limits: dict[Kind | Literal["default"], Annotated[float, Meta(gt=0)]] = msgspec.field(default_factory=dict)
    """Seconds that a cell may take, by kind; ``default`` for the others."""
    resources: dict[
        Kind | Literal["*"], dict[Literal["num_cpus", "num_gpus", "memory"], Annotated[float, Meta(ge=0)]]
    ] = msgspec.field(default_factory=dict)
    """What Ray reserves for a cell, by kind, fractions allowed."""

    def __post_init__(self) -> None:
        _sort(self)
        self._once("forget", self.forget)
        for classes in self.forget:
            self._once("forget", classes)
        self._once("seeds", self.seeds)
        self._once("methods", self.methods)
        self._once("ablation", [one.name for one in self.ablations], empty=True)
        own = (*self.methods, *self.controls)
        for one in self.ablations:
            self._within(f"ablation {one.name}", one.methods, own)
            self._within(f"ablation {one.name}", one.forget, self.forget)
        if self.diagnostics is not None:
            chosen = (*(self.diagnostics.methods or ()), *self.diagnostics.geometry)
            self._within("diagnostics", chosen, (*own, *PUBLISHED, *CONTROLS))
            self._within("diagnostics", self.diagnostics.forget, self.forget)

    def _once(self, what: str, values: Sequence[object], *, empty: bool = False) -> None:
        if len(set(values)) < len(values) or not (values or empty):
            raise InputError(f"the protocol {self.name}: {what} is empty or names one twice", got=values)

    def _within(self, what: str, values: Sequence[object] | None, known: Sequence[object]) -> None:
        unknown = [value for value in values or () if value not in known]
        if unknown:
            expected = ", ".join(dict.fromkeys(map(str, known)))
            raise InputError(
                f"{what} names what the protocol {self.name} does not have", expected=expected, got=unknown
            )


def load_protocol(source: str | Path) -> Protocol:
    """Read a protocol by its name, or from a ``.toml`` file.

    >>> load_protocol("digits").backbone
    'small-cnn'
    """
    content = _resolve(str(source))
    content |= {name: None for name in ("pra", "linear_probe", "diagnostics") if content.get(name) is False}
    if "ablation" in content:
        content["ablations"] = content.pop("ablation")
    return read_as(Protocol, content, f"{source} is not a protocol")


def read_as(shape: type[T], content: object, what: str) -> T:
    """Read plain values as a type; ``what`` says what is wrong if they are not of it."""
    try:
        return msgspec.convert(content, shape)
    except msgspec.ValidationError as problem:
        if isinstance(problem.__cause__, InputError):
            raise problem.__cause__ from None
        raise InputError(what, got=problem, do="see docs/benchmark.md for what belongs in it") from None


def protocol_names() -> tuple[str, ...]:
    """List the protocols that come with the package."""
    names = (path.name for path in _shipped().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def _shipped() -> Traversable:
    return resources.files("sfra.bench") / "protocols"


def _resolve(source: str) -> dict[str, Any]:
    """Read a file and lay it over the protocols that it extends."""
    layers: dict[str, dict[str, Any]] = {}
    while True:
        content = layers[source] = _read(source)
        if str(content.get("recipe", "")).endswith(".toml"):
            content["recipe"] = str(Path(source).parent / content["recipe"])
        base = content.pop("extends", None)
        if base is None:
            return {name: value for layer in reversed(layers.values()) for name, value in layer.items()}
        if not isinstance(base, str):
            raise InputError(f"{source}: extends is of the wrong kind", expected="name or file of a protocol", got=base)
        source = os.path.normpath(Path(source).parent / base) if base.endswith(".toml") else base
        if source in layers:
            raise InputError(f"the protocol {source} extends itself", got=" → ".join([*layers, source]))


def _read(source: str) -> dict[str, Any]:
    path: Traversable = Path(source)
    if not source.endswith(".toml"):
        path = _shipped() / f"{source}.toml"
        if source not in protocol_names():
            raise InputError(
                "unknown protocol",
                expected=f"{', '.join(protocol_names())}, or the path of a .toml file",
                got=source,
                do=meant(source, protocol_names()) or "choose one of sfra list protocols",
            )
    if not path.is_file():
        raise InputError("the file does not exist", got=source, do="check the path")
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"the protocol {source} cannot be read", expected="a TOML file", got=problem) from None


def _sort(one: Protocol | _Chosen) -> None:
    """Bring the classes of each forget set into order: [6, 1] is [1, 6], and the same cells."""
    if one.forget is not None:
        msgspec.structs.force_setattr(one, "forget", tuple(tuple(sorted(each)) for each in one.forget))
