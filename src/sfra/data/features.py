"""From images to what the head takes: features of a frozen encoder, computed once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.data.cache import cache_path, read_features, write_features
from sfra.data.sets import FeatureSet, ImageSet, Transform

Encoder = Callable[[Tensor], Tensor]
"""From preprocessed images ``[n, c, h, w]`` to features ``[n, d]``."""

Progress = Callable[[int, int], None]
"""Told after each batch how many samples are done, of how many."""


def extract_features(
    encoder: Encoder,
    images: ImageSet,
    *,
    model_fingerprint: str,
    preprocess: Transform | None = None,
    batch_size: int = 1024,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    cache: bool = True,
) -> FeatureSet:
    """Compute the features of all images in batches, or take them from the cache.

    Args:
        encoder: Maps preprocessed images to features; in eval mode, and on ``device``.
        images: What to encode.
        model_fingerprint: Stands for the encoder in the cache: other weights, other fingerprint.
        preprocess: Applied to the images, which are in [0, 1], on the device; a :class:`sfra.release.Preprocess`, say.
        batch_size: How many images are decoded and encoded at once.
        device: Where the images go; where the encoder's own weights are, if not given.
        progress: Called with the number of samples done and their total.
        cache: Whether to look for, and leave, the features in :func:`sfra.data.cache.cache_folder`.
            A preprocessing that cannot be told from others (a lambda, say) is never cached.

    Returns:
        The features in the order of the images, float32 on the CPU, with the images' labels and names.
    """
    path = cache_path(model_fingerprint, images, preprocess) if cache else None
    cached = None if path is None else read_features(path, images.labels)
    if cached is not None:
        if progress is not None:
            progress(len(images), len(images))
        return _with_labels(cached, images)
    extracted = _with_labels(_encode(encoder, images, preprocess, batch_size, device, progress), images)
    if path is not None:
        write_features(path, extracted.features, extracted.labels)
    return extracted


def _encode(
    encoder: Encoder,
    images: ImageSet,
    preprocess: Transform | None,
    batch_size: int,
    device: str | torch.device | None,
    progress: Progress | None,
) -> Tensor:
    where, parts, done = _prepare(encoder, device), [], 0
    for batch in images.batches(batch_size, preprocess, device=where):
        with torch.no_grad():
            parts.append(_checked(encoder(batch), len(batch)).to("cpu", torch.float32))
        done += len(batch)
        if progress is not None:
            progress(done, len(images))
    return torch.cat(parts)


def _prepare(encoder: Encoder, device: str | torch.device | None) -> str | torch.device | None:
    """Refuse an encoder in training mode; return the device of its images."""
    if not isinstance(encoder, nn.Module):
        return device
    if any(module.training for module in encoder.modules()):
        raise InputError(
            "the encoder is in training mode",
            expected="a frozen encoder: batch norm and dropout would change the features",
            got="training = True",
            do="call .eval() on it first",
        )
    first = next(encoder.parameters(), None)
    return device if device is not None or first is None else first.device


def _checked(features: Tensor, samples: int) -> Tensor:
    if features.ndim != 2 or len(features) != samples:
        raise InputError(
            "the encoder does not return features",
            expected=f"shape [{samples}, d] for a batch of {samples} images",
            got=list(features.shape),
            do="flatten what enters the classifier head to one row per image",
        )
    return features


def _with_labels(features: Tensor, images: ImageSet) -> FeatureSet:
    return FeatureSet(features=features, labels=images.labels, class_names=images.class_names, source=images.source)
