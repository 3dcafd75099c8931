"""From images to what the head takes: features of a frozen encoder, computed once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor, nn

from sfra.core.batches import portions
from sfra.core.errors import InputError
from sfra.core.types import Progress
from sfra.data.cache import features_path, read_features, write_features
from sfra.data.sets import FeatureSet, ImageSet, Transform

Encoder = Callable[[Tensor], Tensor]
"""From preprocessed images ``[n, c, h, w]`` to features ``[n, d]``."""

STEP = "extracting features"
"""What the progress is told to be going on."""


def extract_features(
    encoder: Encoder,
    images: ImageSet,
    *,
    model_fingerprint: str,
    preprocess: Transform | None = None,
    batch_size: int = 1024,
    progress: Progress | None = None,
    cache: bool = True,
) -> FeatureSet:
    """Compute the features of all images in batches, or take them from the cache.

    Args:
        encoder: Maps preprocessed images to features; in eval mode. The images go to where its weights are.
        images: What to encode.
        model_fingerprint: Stands for the encoder in the cache: other weights, other fingerprint.
        preprocess: Applied to the images, which are in [0, 1], there; a :class:`sfra.release.Preprocess`, say.
        batch_size: How many images are decoded at once, and encoded, unless they are large.
        progress: Told after each batch how many samples are done, of how many.
        cache: Whether to look for, and leave, the features in :func:`sfra.data.cache.cache_folder`.
            A preprocessing that cannot be told from others (a lambda, say) is never cached.

    Returns:
        The features in the order of the images, float32 on the CPU, with the images' labels and names.
    """
    path = features_path(model_fingerprint, images, preprocess) if cache else None
    cached = None if path is None else read_features(path)
    if cached is None:
        features = _encode(encoder, images, preprocess, batch_size, progress)
    else:
        features = cached
        if progress is not None:
            progress(STEP, len(images), len(images))
    kept = {name: getattr(images, name) for name in ("labels", "class_names", "source", "numbering")}
    found = FeatureSet(features=features, **kept)
    if path is not None and cached is None:
        write_features(path, found.features)
    return found


def _encode(
    encoder: Encoder,
    images: ImageSet,
    preprocess: Transform | None,
    batch_size: int,
    progress: Progress | None,
) -> Tensor:
    modules = list(encoder.modules()) if isinstance(encoder, nn.Module) else []
    if any(module.training for module in modules):
        raise InputError(
            "the encoder is in training mode",
            expected="a frozen encoder: batch norm and dropout would change the features",
            got="training = True",
            do="call .eval() on it first",
        )
    device = next((weight.device for module in modules for weight in module.parameters()), None)
    parts, done = list[Tensor](), 0
    read = images.batches(batch_size, preprocess, device=device)
    for batch in chain.from_iterable(map(portions, read)):
        last = batch.is_cuda and batch.ndim == 4  # three times as fast through convolutions
        with torch.no_grad():
            features = encoder(batch.contiguous(memory_format=torch.channels_last) if last else batch)
        if features.ndim != 2 or len(features) != len(batch):
            raise InputError(
                "the encoder does not return features",
                expected=f"shape [{len(batch)}, d] for a batch of {len(batch)} images",
                got=list(features.shape),
                do="flatten what enters the classifier head to one row per image",
            )
        parts.append(features.to("cpu", torch.float32))
        done += len(batch)
        if progress is not None:
            progress(STEP, done, len(images))
    return torch.cat(parts)
