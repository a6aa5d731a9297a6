"""What a script says beyond calls and settings: steps, forward passes, tensors, data, models.

A rule writes ``facts.Step``. The values come from `Script`; these are their types, and questions
that few rules ask.
"""

from memlint.engine.forwards import Certainty
from memlint.engine.tensors import Output, Positions, Role, Tensor, Width
from memlint.engine.values import Function
from memlint.flow.reach import Reach
from memlint.script.datasets import Dataset, Preparation
from memlint.script.encodings import taken_for_ids
from memlint.script.evaluation import Evaluation
from memlint.script.forward_passes import Forward, Held, Step
from memlint.script.frozen import FrozenPass
from memlint.script.graphs import Graph, Hoard, Sum
from memlint.script.handwritten_losses import LossForm, TokenLoss
from memlint.script.lengths import Effect, Lengths
from memlint.script.loaded_models import ModelFacts
from memlint.script.loop_models import LoopModel
from memlint.script.owners import Owner
from memlint.script.purpose import Purpose
from memlint.script.restoring import Fate
from memlint.script.row_functions import RowFunction, row_functions
from memlint.script.spelled import (
    attributes_of_class,
    exports,
    functions_defined,
    has_string,
    reads_key,
    reads_of_self,
    sets_attribute,
    texts_given_to,
    uses_of_name,
)
from memlint.script.subclasses import kept_by_subclass
from memlint.script.tokenization import Tokenization
from memlint.script.torchtune import TorchtuneModel
from memlint.script.trained import Trained
from memlint.script.version_guards import retries_of

__all__ = [
    "Certainty",
    "Dataset",
    "Effect",
    "Evaluation",
    "Fate",
    "Forward",
    "FrozenPass",
    "Function",
    "Graph",
    "Held",
    "Hoard",
    "Lengths",
    "LoopModel",
    "LossForm",
    "ModelFacts",
    "Output",
    "Owner",
    "Positions",
    "Preparation",
    "Purpose",
    "Reach",
    "Role",
    "RowFunction",
    "Step",
    "Sum",
    "Tensor",
    "TokenLoss",
    "Tokenization",
    "TorchtuneModel",
    "Trained",
    "Width",
    "attributes_of_class",
    "exports",
    "functions_defined",
    "has_string",
    "kept_by_subclass",
    "reads_key",
    "reads_of_self",
    "retries_of",
    "row_functions",
    "sets_attribute",
    "taken_for_ids",
    "texts_given_to",
    "uses_of_name",
]
