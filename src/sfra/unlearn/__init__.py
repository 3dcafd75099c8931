"""Published unlearning methods: each leaves the caller's model untouched and returns a new one.

Importing a method's file registers it.

>>> describe("delete").needs
('forget',)
"""

from sfra.models.training.train import Samples, TensorData
from sfra.unlearn.bad_teacher import BadTeacher as BadTeacher
from sfra.unlearn.base import Checkpoint, Record, StepMethod, Unlearned, UnlearningMethod, choose
from sfra.unlearn.boundary_shrink import BoundaryShrink as BoundaryShrink
from sfra.unlearn.delete import Delete as Delete
from sfra.unlearn.finetune import Finetune as Finetune
from sfra.unlearn.learn_to_unlearn import LearnToUnlearn as LearnToUnlearn
from sfra.unlearn.mask import mask_head
from sfra.unlearn.negative_gradient import NegativeGradient as NegativeGradient
from sfra.unlearn.negative_gradient_plus import NegativeGradientPlus as NegativeGradientPlus
from sfra.unlearn.quality import Quality, aus, measure, predict
from sfra.unlearn.random_label import RandomLabel as RandomLabel
from sfra.unlearn.registry import Description, check_recipe, describe, get, make_method, names, register, source_of
from sfra.unlearn.retrained import Retrained as Retrained
from sfra.unlearn.salun import SalUn as SalUn
from sfra.unlearn.scrub import Scrub as Scrub
from sfra.unlearn.task import Task, View

__all__ = [
    "Checkpoint",
    "Description",
    "Quality",
    "Record",
    "Samples",
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
    "source_of",
]
