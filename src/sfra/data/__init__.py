"""Labelled data, only ever used to measure or to train: the audit's two steps cannot import this package."""

from sfra.data.features import extract_features
from sfra.data.load import Data, has_split, load_data
from sfra.data.named import dataset, datasets
from sfra.data.samples import Augment, ImageTensors, open_samples
from sfra.data.sets import SPLITS, ArrayPixels, FeatureSet, ImageSet, Pixels, Split, Transform

__all__ = [
    "SPLITS",
    "ArrayPixels",
    "Augment",
    "Data",
    "FeatureSet",
    "ImageSet",
    "ImageTensors",
    "Pixels",
    "Split",
    "Transform",
    "dataset",
    "datasets",
    "extract_features",
    "has_split",
    "load_data",
    "open_samples",
]
