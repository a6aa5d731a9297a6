"""The model of a training script: ``build_script(source, api)``."""

from memlint.engine.forwards import Certainty
from memlint.engine.scopes import Flow
from memlint.engine.tensors import Output, Positions, Role, Tensor, Width
from memlint.engine.tree import packages_at_top
from memlint.engine.values import How, Object, Provenance, Symbol
from memlint.flow.events import EventKind
from memlint.flow.reach import Reach
from memlint.script.call_settings import MISSING, UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS as CHECKPOINTING_ARGUMENTS
from memlint.script.checkpointing import SWITCHES as CHECKPOINTING_OPTIONS
from memlint.script.datasets import Dataset
from memlint.script.forward_passes import Forward
from memlint.script.graphs import Graph
from memlint.script.handwritten_losses import LossForm
from memlint.script.lengths import Lengths
from memlint.script.loaded_models import ModelFacts
from memlint.script.model import Script, build_script, parse_script
from memlint.script.owners import Owner
from memlint.script.purpose import Purpose
from memlint.script.restoring import Fate
from memlint.script.trained import Trained
