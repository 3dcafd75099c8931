"""The named photographs: CIFAR-10, CIFAR-100 and TinyImageNet, from whatever copy is on the machine.

Images are put in a canonical order, by class and then by the SHA-256 of their pixels, before they are split. So the
same images give the same sets, in the same order and with the same fingerprint, whichever layout they come from.
"""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import torch
from numpy.typing import NDArray

from sfra.core.errors import InputError
from sfra.data.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES, recognise_batches
from sfra.data.decoded import MappedPixels, Sets, decode_once
from sfra.data.layouts import recognise_folders, recognise_tables
from sfra.data.registry import Split, dataset
from sfra.data.sets import ImageSet
from sfra.data.tiny_imagenet import NAME, recognise_tiny_imagenet
from sfra.data.where import Copy, Official, Part, find_copy

CIFAR10 = Official(
    name="cifar10",
    title="CIFAR-10",
    pattern=r"cifar[-_ ]?10(?!\d)",
    size=32,
    classes=10,
    class_names=CIFAR10_CLASSES,
    per_class={"train": 5000, "test": 1000},
    label_columns=("label", "labels"),
    download="cifar-10-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html",
)

CIFAR100 = Official(
    name="cifar100",
    title="CIFAR-100",
    pattern=r"cifar[-_ ]?100(?!\d)",
    size=32,
    classes=100,
    class_names=CIFAR100_CLASSES,
    per_class={"train": 500, "test": 100},
    label_columns=("fine_label", "fine_labels", "label"),
    download="cifar-100-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html",
)

TINY_IMAGENET = Official(
    name=NAME,
    title="TinyImageNet",
    pattern=r"tiny[-_ ]?image[-_ ]?net",
    size=64,
    classes=200,
    class_names=None,
    per_class={"train": 500, "test": 50},
    label_columns=("label", "labels"),
    download="tiny-imagenet-200.zip from cs231n.stanford.edu",
)

LAYOUTS = (recognise_batches, recognise_tiny_imagenet, recognise_folders, recognise_tables)

VALIDATION = 20
"""One training image in so many is held back to validate: 5 %."""

_log = logging.getLogger(__name__)


@dataset("cifar10", "60,000 photographs, 3x32x32, 10 classes; a copy in $SFRA_DATA or ./data (docs/data.md)")
def cifar10(split: Split) -> ImageSet:
    """Load one split of CIFAR-10."""
    return load_official(CIFAR10, split)


@dataset("cifar100", "60,000 photographs, 3x32x32, 100 classes; a copy in $SFRA_DATA or ./data (docs/data.md)")
def cifar100(split: Split) -> ImageSet:
    """Load one split of CIFAR-100, with its fine labels."""
    return load_official(CIFAR100, split)


@dataset(NAME, "110,000 photographs, 3x64x64, 200 classes; a copy in $SFRA_DATA or ./data (docs/data.md)")
def tiny_imagenet(split: Split) -> ImageSet:
    """Load one split of TinyImageNet; the published validation images are the test split."""
    return load_official(TINY_IMAGENET, split)


def load_official(official: Official, split: Split) -> ImageSet:
    """Load one split from the first copy on this machine, which must be complete.

    ``test`` is the published test part. ``train`` and ``validation`` divide the published training part: of the
    images of a class, in canonical order, the first twentieth validates.
    """
    copy = find_copy(official, LAYOUTS)
    part: Part = "test" if split == "test" else "train"
    files = list(copy.files(part))
    what = f"{official} {part} {copy.path.resolve()} {copy.class_names}"
    _log.info("%s: %s in %s", official.name, copy.layout, copy.path)
    return decode_once(what, files, lambda: _read(official, copy, part))[split]


def canonical_order(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort by class, then by the SHA-256 of the pixels ``[c, h, w]``."""
    digests = [hashlib.sha256(image.tobytes()).digest() for image in images]
    rows = sorted(range(len(labels)), key=lambda row: (int(labels[row]), digests[row]))
    return np.array(rows, dtype=np.int64)


def validates(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the first twentieth, rounded up, of each class; labels are sorted."""
    counts = np.bincount(labels)
    position = np.arange(len(labels)) - (np.cumsum(counts) - counts)[labels]
    return np.asarray(position < -(-counts // VALIDATION)[labels])


def _read(official: Official, copy: Copy, part: Part) -> Sets:
    images, labels = copy.read(part)
    _refuse_partial(official, copy, part, labels)
    rows = canonical_order(images, labels)
    held = validates(labels[rows]) if part == "train" else np.zeros(len(rows), dtype=np.bool_)
    chosen = {"validation": rows[held], "train": rows[~held]} if part == "train" else {"test": rows}
    return {
        split: ImageSet(
            pixels=MappedPixels(images, index),
            labels=torch.from_numpy(labels[index]),
            class_names=copy.class_names,
            source=f"{official.name} ({split})",
        )
        for split, index in chosen.items()
    }


def _refuse_partial(official: Official, copy: Copy, part: Part, labels: NDArray[np.int64]) -> None:
    each = official.per_class[part]
    counts = np.bincount(labels, minlength=official.classes)
    wrong = [label for label, count in enumerate(counts.tolist()) if count != each]
    if wrong:
        names = (f"{counts[label]:,} of class {label}" for label in wrong[:3])
        raise InputError(
            f"the copy of {official.title} in {copy.path} is not complete",
            expected=f"{each * official.classes:,} images to {part}, {each:,} of each of {official.classes} classes",
            got=f"{len(labels):,}: {', '.join(names)}{' …' if len(wrong) > 3 else ''}",
            do=f"replace it: {official.download}",
        )
