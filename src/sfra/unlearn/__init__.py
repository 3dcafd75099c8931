"""Published unlearning methods: each leaves the caller's model untouched and returns a new one.

Importing a method's file registers it.

>>> describe("delete").needs
('forget',)
"""

from sfra.models.training.train import Samples, TensorData
from sfra.unlearn.bad_teacher import BadTeacher
from sfra.unlearn.base import Checkpoint, Record, StepMethod, Unlearned, UnlearningMethod
from sfra.unlearn.boundary_shrink import BoundaryShrink
from sfra.unlearn.choose import choose
from sfra.unlearn.delete import Delete
from sfra.unlearn.finetune import Finetune
from sfra.unlearn.learn_to_unlearn import LearnToUnlearn
from sfra.unlearn.mask import mask_head
from sfra.unlearn.negative_gradient import NegativeGradient
from sfra.unlearn.negative_gradient_plus import NegativeGradientPlus
from sfra.unlearn.quality import Quality, aus, measure, predict
from sfra.unlearn.random_label import RandomLabel
from sfra.unlearn.registry import Description, check_recipe, describe, get, make_method, names, register
from sfra.unlearn.retrained import Retrained
from sfra.unlearn.salun import SalUn
from sfra.unlearn.scrub import Scrub
from sfra.unlearn.task import Task, View

__all__ = [
    "BadTeacher",
    "BoundaryShrink",
    "Checkpoint",
    "Delete",
    "Description",
    "Finetune",
    "LearnToUnlearn",
    "NegativeGradient",
    "NegativeGradientPlus",
    "Quality",
    "RandomLabel",
    "Record",
    "Retrained",
    "SalUn",
    "Samples",
    "Scrub",
    "StepMethod",
    "Task",
    "TensorData",
    "Unlearned",
    "UnlearningMethod",
    "View",
    "aus",
    "check_recipe",
    "choose",
    "describe",
    "get",
    "make_method",
    "mask_head",
    "measure",
    "names",
    "predict",
    "register",
]
