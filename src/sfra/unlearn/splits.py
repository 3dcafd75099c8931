"""The two splits that models are made with: one to train on, one to choose and to measure on. Never the test set."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from sfra.core.errors import InputError
from sfra.data import Augment, ImageSet, ImageTensors, Split, has_split, load_data, open_samples
from sfra.models.backbones import input_shape
from sfra.models.forward import device_of, logits
from sfra.release import Preprocess
from sfra.unlearn import measure, predict


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """Images on the device, prepared for one network."""

    train: ImageTensors
    """Augmented, without the classes that were left out."""
    validation: ImageTensors | None
    """As they are, with every class; None where the data set has no such split."""
    classes: int
    """Number of classes of the data set, whatever was left out."""
    class_names: tuple[str, ...] | None = field(repr=False)
    """Their names, where known."""

    def measure(
        self, model: nn.Module, forget: Sequence[int], *, original: nn.Module | None = None
    ) -> dict[str, float] | None:
        """Measure accuracies on validation: overall, or retain, forget and, where ``original`` is given, the AUS."""
        if self.validation is None:
            return None
        if not forget:
            right = predict(model, self.validation) == self.validation.labels
            return {"accuracy": float(right.double().mean())}
        goal = None if original is None else measure(original, self.validation, forget).retain
        found = measure(model, self.validation, forget, retain_original=goal)
        return {"retain": found.retain, "forget": found.forget, **({} if goal is None else {"aus": found.aus})}

    def check_fit(self, model: nn.Module, backbone: str) -> None:
        """Refuse images that the network does not take, and a network of other classes."""
        image = self.train.take(torch.tensor([0]))
        try:
            with torch.no_grad():
                outputs = logits(copy.deepcopy(model).eval(), image.to(device_of(model))).shape[1]
        except (RuntimeError, TypeError, ValueError) as problem:
            raise InputError(
                f"{backbone} does not take these images",
                expected=f"channels, height and width as it is made for: {list(input_shape(backbone))}",
                got=f"{list(image.shape[1:])} ({str(problem).splitlines()[0]})",
                do="choose another backbone, or a recipe whose preprocess resizes them",
            ) from None
        if outputs != self.classes:
            raise InputError(
                "the model was not trained on this data set",
                expected=f"{self.classes} outputs, one for each class of the data",
                got=outputs,
            )


def open_splits(
    data: str,
    *,
    prepare: Preprocess | None = None,
    augment: Augment | None = None,
    without: Sequence[int] = (),
    device: str = "cpu",
) -> Splits:
    """Load the training split, augmented and ``without`` some classes, and the validation split onto a device."""
    images = _images(data, "train")
    names = images.class_names
    classes = len(names) if names is not None else int(images.labels.max()) + 1
    if not set(without) <= set(range(classes)) or classes - len(set(without)) < 2:
        raise InputError(
            "the classes to leave out do not fit the data",
            expected=f"indices from 0 to {classes - 1}, with two classes left",
            got=sorted(without),
        )
    if without:
        images = images.select(torch.where(~torch.isin(images.labels, torch.tensor(sorted(without))))[0])
    held = _images(data, "validation") if has_split(data, "validation") else None
    return Splits(
        train=open_samples(images, prepare=prepare, augment=augment, device=device),
        validation=None if held is None else open_samples(held, prepare=prepare, device=device),
        classes=classes,
        class_names=names,
    )


def _images(data: str, split: Split) -> ImageSet:
    loaded = load_data(data, split=split)
    if not isinstance(loaded, ImageSet):
        raise InputError("there are no images to train on", expected="images with labels", got=loaded.source)
    return loaded
