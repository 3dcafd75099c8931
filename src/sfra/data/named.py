"""Named data sets: what ``--data`` knows besides files and folders.

Published photographs come from whatever copy is on the machine. They are put in a canonical order, by class and then
by the SHA-256 of their pixels, before they are split. So the same images give the same sets, in the same order and with
the same fingerprint, whichever layout they come from.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import resources

import numpy as np
import torch
from numpy.typing import NDArray

from sfra.core.errors import InputError
from sfra.data.cache import Sets, decode_once
from sfra.data.cifar import recognise_batches
from sfra.data.copies import Copy, Official, Part, find_copy, recognise_folders, recognise_tables
from sfra.data.sets import ArrayPixels, FeatureSet, ImageSet, Split

Loader = Callable[[Split], FeatureSet | ImageSet]
"""From a split to its data."""

LAYOUTS = (recognise_batches, recognise_folders, recognise_tables)

VALIDATION = 20
"""One training image in this many is held back to validate: 5 %."""

_DATASETS: dict[str, tuple[str, Loader]] = {}

_log = logging.getLogger(__name__)


def dataset(name: str, description: str) -> Callable[[Loader], Loader]:
    """Register the decorated loader under a name.

    A new data set is one function, or one call of :func:`published`::

        @dataset("digits", "1,797 handwritten digits, 1x8x8, 10 classes")
        def digits(split: Split) -> ImageSet: ...
    """

    def register(loader: Loader) -> Loader:
        if name in _DATASETS:
            raise ValueError(f"two data sets are called {name!r}: choose another name")
        _DATASETS[name] = (description, loader)
        return loader

    return register


def published(official: Official) -> Official:
    """Register a published data set, read from a copy on this machine."""
    dataset(official.name, official.description)(partial(load_official, official))
    return official


def datasets() -> dict[str, str]:
    """Return the name and one-line description of every named data set, sorted by name."""
    return {name: _DATASETS[name][0] for name in sorted(_DATASETS)}


def loader_of(name: object) -> Loader | None:
    """Return the loader of a named data set, or None."""
    return _DATASETS[name][1] if isinstance(name, str) and name in _DATASETS else None


def load_official(official: Official, split: Split) -> ImageSet:
    """Load one split from the first copy on this machine, which must be complete.

    ``test`` is the published test part. ``train`` and ``validation`` divide the published training part: of the
    images of a class, in canonical order, the first twentieth validates.
    """
    copy = find_copy(official, LAYOUTS)
    part: Part = "test" if split == "test" else "train"
    what = f"{official.name} {part} {copy.path.resolve()} {copy.class_names}"
    _log.info("%s is read from %s", official.name, copy.path)
    return decode_once(what, copy.files(part), lambda: _read(official, copy, part))[split]


def validates(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the first twentieth, rounded up, of each class; labels are sorted."""
    counts = np.bincount(labels)
    position = np.arange(len(labels)) - (np.cumsum(counts) - counts)[labels]
    return np.asarray(position < -(-counts // VALIDATION)[labels])


def _read(official: Official, copy: Copy, part: Part) -> Sets:
    images, labels = copy.read(part)
    _refuse_partial(official, copy, part, labels)
    digests = [hashlib.sha256(image.tobytes()).digest() for image in images]  # of pixels [c, h, w]
    rows = np.array(sorted(range(len(labels)), key=lambda row: (int(labels[row]), digests[row])), dtype=np.int64)
    held = validates(labels[rows])
    chosen = {"validation": rows[held], "train": rows[~held]} if part == "train" else {"test": rows}
    return {
        split: ImageSet(
            pixels=ArrayPixels(images, index),
            labels=torch.from_numpy(labels[index]),
            class_names=copy.class_names,
            source=f"{official.name} ({split})",
        )
        for split, index in chosen.items()
    }


def _refuse_partial(official: Official, copy: Copy, part: Part, labels: NDArray[np.int64]) -> None:
    each, found = official.per_class[part], Counter(labels.tolist())
    right = dict.fromkeys(range(official.classes), each)
    wrong = [label for label in sorted({*right, *found}) if found[label] != right.get(label, 0)]
    if wrong:
        names = (f"{found[label]:,} of class {label}" for label in wrong[:3])
        raise InputError(
            f"the copy of {official.title} in {copy.path} is not complete",
            expected=f"{each * official.classes:,} images to {part}, {each:,} of each of {official.classes} classes",
            got=f"{len(labels):,}: {', '.join(names)}{' …' if len(wrong) > 3 else ''}",
            do=f"replace it: {official.download}",
        )


@dataset("digits", "1,797 handwritten digits, 1x8x8, 10 classes, part of this package")
def digits(split: Split) -> ImageSet:
    """Load one split of the digits that come with this package, the same as scikit-learn's; pixels in [0, 1].

    The split is stratified and uses no random number: of every 20 consecutive images of a class, in the order of the
    file, image ``i`` trains if ``7 i mod 20`` is below 12, validates below 15, and tests else (60, 15 and 25 %). It is
    the same everywhere, for ever.
    """
    with (resources.files("sfra.data") / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as data:
        labels, pixels = torch.from_numpy(data["labels"]).long(), torch.from_numpy(data["images"])
    earlier = (torch.nn.functional.one_hot(labels).cumsum(0) - 1)[torch.arange(len(labels)), labels]
    place, (first, last) = 7 * earlier % 20, {"train": (0, 12), "validation": (12, 15), "test": (15, 20)}[split]
    rows = (first <= place) & (place < last)
    images = pixels.float().unsqueeze(1) / 16
    return ImageSet(
        pixels=ArrayPixels(images[rows].numpy()),
        labels=labels[rows],
        class_names=tuple("0123456789"),
        source=f"digits ({split})",
    )


CIFAR10 = published(
    Official(
        name="cifar10",
        title="CIFAR-10",
        pattern=r"cifar[-_ ]?10(?!\d)",
        size=32,
        classes=10,
        per_class={"train": 5000, "test": 1000},
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        batches={"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
        download="cifar-10-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html",
    )
)

_FINE = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man
    maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail
    snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout
    tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = published(
    Official(
        name="cifar100",
        title="CIFAR-100",
        pattern=r"cifar[-_ ]?100(?!\d)",
        size=32,
        classes=100,
        per_class={"train": 500, "test": 100},
        class_names=tuple(_FINE.split()),
        label_columns=("fine_label", "fine_labels", "label", "labels"),
        batches={"train": ("train",), "test": ("test",)},
        download="cifar-100-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html",
    )
)

TINY_IMAGENET = published(
    Official(
        name="tiny-imagenet",
        title="TinyImageNet",
        pattern=r"tiny[-_ ]?image[-_ ]?net",
        size=64,
        classes=200,
        per_class={"train": 500, "test": 50},
        download="tiny-imagenet-200.zip from cs231n.stanford.edu",
    )
)
