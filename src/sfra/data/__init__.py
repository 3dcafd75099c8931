"""Labelled data, only ever used to measure or to train: the audit's two steps cannot import this package."""

from sfra.data import digits as digits
from sfra.data import official as official
from sfra.data.arrays import MemoryPixels
from sfra.data.augment import Augment
from sfra.data.decoded import MappedPixels
from sfra.data.features import Progress, extract_features
from sfra.data.load import Data, has_split, load_data
from sfra.data.registry import SPLITS, Split, dataset, datasets
from sfra.data.samples import ImageTensors, open_samples
from sfra.data.sets import FeatureSet, ImageSet, Pixels, Transform

__all__ = [
    "SPLITS",
    "Augment",
    "Data",
    "FeatureSet",
    "ImageSet",
    "ImageTensors",
    "MappedPixels",
    "MemoryPixels",
    "Pixels",
    "Progress",
    "Split",
    "Transform",
    "dataset",
    "datasets",
    "extract_features",
    "has_split",
    "load_data",
    "open_samples",
]
