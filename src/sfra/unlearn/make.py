"""Make models: an original, a reference that never saw some classes, and models that were made to forget them."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from sfra import unlearn
from sfra._version import __version__
from sfra.auditing.naming import check_order
from sfra.auditing.subject import KNOWN
from sfra.core.checked import LAST_SEED
from sfra.core.cpu import one_thread
from sfra.core.errors import InputError, NotFiniteError
from sfra.core.refusals import forget_out_of_range
from sfra.core.types import Progress
from sfra.data import Augment, ImageTensors
from sfra.models import backbones
from sfra.models.backbones.checkpoint import Checkpoint
from sfra.models.forward import bring_home
from sfra.models.recipes import Recipe
from sfra.models.training.train import Epoch, Training, train
from sfra.release import Preprocess
from sfra.release.base import usable_device
from sfra.unlearn.splits import open_splits
from sfra.unlearn.task import draw_seed

SMALL = 100_000
"""Networks of fewer weights train faster on one thread of the CPU than on several."""


def train_model(
    *,
    data: str,
    backbone: str,
    recipe: Recipe,
    without: Sequence[int] = (),
    seed: int = 0,
    device: str = "cpu",
    resume: Path | None = None,
    progress: Progress | None = None,
) -> Checkpoint:
    """Train an original; or, ``without`` some classes, a reference that has their outputs but never saw them.

    Only the training split is trained on and only the validation split is measured on. A reference draws its
    initialisation, order and augmentation from another seed than the original, one for each set of classes.

    The notes of the model are the facts about it, values of JSON: settings, seeds, accuracies on the validation split,
    losses, seconds.

    Args:
        data: Name of a data set with splits, or a folder that has them.
        backbone: A name of :func:`sfra.models.backbones.names`.
        recipe: How to train.
        without: Classes to leave out.
        seed: Equal seeds give equal models on the same kind of device.
        device: Where to compute.
        resume: See ``checkpoint`` of :func:`sfra.models.training.train.train`; delete it once the model is saved.
        progress: Told the stage, and how far it is.
    """
    began, tell = time.perf_counter(), progress or (lambda *stage: None)
    usable_device(device)
    unlearn.check_recipe(recipe)
    training, own = Training(**recipe.training), run_seed(seed, without)
    tell("loading data", 0, 1)
    prepare = Preprocess(**recipe.preprocess) if recipe.preprocess else None
    splits = open_splits(data, prepare=prepare, augment=_augment(recipe), without=without, device=device)
    model = backbones.build(
        backbone,
        classes=splits.classes,
        seed=draw_seed(torch.Generator().manual_seed(own)),
        pretrained=recipe.pretrained,
    )
    losses: list[float] = []
    notes: list[str] = []
    with _threads(model, device):
        splits.check_fit(model.to(device), backbone)
        tell("training", 0, training.epochs)
        trained = train(
            model,
            splits.train,
            training=training,
            seed=own,
            checkpoint=resume,
            progress=_noting(tell, "training", losses, notes),
        )
        tell("measuring", 0, 1)
        quality = splits.measure(trained, without)
    facts = {
        "kind": "reference" if without else "original",
        "without": sorted(without),
        "training": asdict(training),
        "losses": losses,
        **_common_facts(data, recipe, splits.train, seed, device),
        "validation": quality,
        "notes": notes,
        "seconds": time.perf_counter() - began,
    }
    return Checkpoint(
        model=bring_home(trained, torch.device("cpu")),
        backbone=backbone,
        classes=splits.classes,
        preprocess=prepare,
        class_names=splits.class_names,
        notes=facts,
    )


def unlearn_model(
    original: Checkpoint,
    *,
    data: str,
    method: str,
    forget: Sequence[int],
    recipe: Recipe | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Checkpoint:
    """Make a model forget classes; the validation split picks the epoch, by AUS.

    ``retrained`` is trained as the original was and gives exactly what :func:`train_model` gives ``without`` the
    same classes and with the same seed.

    Args:
        original: The model that knows the classes.
        data: The data set it was trained on.
        method: A name of :func:`sfra.unlearn.names`, or ``package.module:Class``.
        forget: Classes to forget.
        recipe: Hyper-parameters that differ from the published ones, and the augmentation.
        settings: Hyper-parameters that win over both.
        seed: Equal seeds give equal models on the same kind of device.
        device: Where to compute.
        progress: Told the stage, and how far it is.
    """
    began, tell = time.perf_counter(), progress or (lambda *stage: None)
    usable_device(device)
    outside = [label for label in forget if not 0 <= label < original.classes]
    if outside:
        raise forget_out_of_range(original.classes, outside)
    if recipe is not None:
        unlearn.check_recipe(recipe)
    algorithm = _algorithm(method, original, recipe, settings)
    tell("loading data", 0, 1)
    augment = _augment(recipe) if recipe is not None else None
    splits = open_splits(data, prepare=original.preprocess, augment=augment, device=device)
    again = isinstance(algorithm, unlearn.Retrained)
    start = original.notes.get("pretrained", None if recipe is None else recipe.pretrained) if again else None
    pretrained = None if start is None else str(start)
    notes: list[str] = []
    with _threads(original.model, device):
        known = copy.deepcopy(original.model).to(device)
        splits.check_fit(known, original.backbone)
        check_order(original.class_names, splits.class_names)
        tell("unlearning", 0, algorithm.epochs)
        result = algorithm(
            known,
            splits.train,
            forget,
            validation=splits.validation,
            rebuild=lambda drawn: backbones.build(
                original.backbone, classes=original.classes, seed=drawn, pretrained=pretrained
            ),
            seed=run_seed(seed, forget if again else ()),
            progress=_noting(tell, "unlearning", [], notes),
        )
        _check_finite(result.model, method)
        tell("measuring", 0, 1)
        quality = splits.measure(result.model, forget, original=known)
        before = splits.measure(known, forget)
        if before is not None and before["forget"] < KNOWN:
            notes.append(
                f"The original itself recognises {100 * before['forget']:.1f} % of the forgotten validation images: "
                "there is little to forget, and little to find."
            )
    facts = {
        "kind": "unlearned",
        "method": result.method,
        "forget": sorted(forget),
        "settings": result.settings,
        "epoch": result.epoch,
        "history": [asdict(record) for record in result.history],
        **_common_facts(data, recipe, splits.train, seed, device),
        "validation": quality,
        "notes": notes,
        "seconds": time.perf_counter() - began,
    }
    model = bring_home(result.model, torch.device("cpu"))
    names = original.class_names or splits.class_names
    return replace(original, model=model, class_names=names, notes=facts)


def _noting(tell: Progress, stage: str, losses: list[float], notes: list[str]) -> Callable[[Epoch], None]:
    """Make a callback that keeps losses and notes, and tells the stage on."""

    def note(done: Epoch) -> None:
        losses.append(done.loss)
        if done.note:
            notes.append(done.note)
        tell("resuming" if done.resumed else stage, done.epoch, done.epochs)

    return note


def _common_facts(data: str, recipe: Recipe | None, samples: ImageTensors, seed: int, device: str) -> dict[str, Any]:
    """List the facts that every model has."""
    return {
        "data": data,
        "recipe": None if recipe is None else recipe.name,
        "pretrained": None if recipe is None else recipe.pretrained,
        "preprocess": asdict(samples.prepare) if isinstance(samples.prepare, Preprocess) else None,
        "augment": None if samples.augment is None else asdict(samples.augment),
        "seed": seed,
        "device": device,
        "versions": {"sfra": __version__, "torch": torch.__version__},
    }


def run_seed(seed: int, without: Sequence[int]) -> int:
    """Derive the seed of a reference from that of the original, another one for each set of classes.

    >>> run_seed(3, ()), run_seed(3, (7,)) == run_seed(3, [7]), run_seed(3, (7,)) == run_seed(3, (8,))
    (3, True, False)
    """
    if not 0 <= seed <= LAST_SEED:
        raise InputError("the seed is out of range", expected="0 to 2^63 - 1", got=seed)
    if not without:
        return seed
    text = f"{seed} without {','.join(map(str, sorted(without)))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _algorithm(
    method: str, original: Checkpoint, recipe: Recipe | None, settings: Mapping[str, Any]
) -> unlearn.UnlearningMethod:
    """Make the method: published settings, then the recipe's, then the caller's."""
    chosen: dict[str, Any] = {}
    kind: Any = unlearn.get(method)
    if issubclass(kind, unlearn.Retrained):
        own = original.notes.get("training")
        chosen |= own if isinstance(own, dict) else {} if recipe is None else recipe.training
    if recipe is not None:
        chosen |= recipe.methods.get(method, {})
    return unlearn.make_method(method, {**chosen, **settings})


def _check_finite(model: nn.Module, method: str) -> None:
    bad = [name for name, value in model.state_dict().items() if not torch.isfinite(value).all()]
    if bad:
        raise NotFiniteError(
            "the unlearned model is not finite",
            expected="finite weights",
            got=f"NaN or infinity in {', '.join(bad[:4])}{' …' if len(bad) > 4 else ''}",
            do=f"lower the learning rate or the epochs of {method}",
        )


def _augment(recipe: Recipe) -> Augment | None:
    return None if recipe.augment is None else Augment(**recipe.augment)


def _threads(model: nn.Module, device: str) -> AbstractContextManager[None]:
    small = sum(weight.numel() for weight in model.parameters()) < SMALL
    return one_thread() if small and torch.device(device).type == "cpu" else nullcontext()
