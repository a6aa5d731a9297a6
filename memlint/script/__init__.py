"""The model of a training script: ``build_script(source, api)``."""

from memlint.engine.forwards import Certainty
from memlint.engine.operations import MEASURES
from memlint.engine.scopes import Flow
from memlint.engine.tensors import Output, Positions, Role, Tensor, Width
from memlint.engine.tree import packages_at_top
from memlint.engine.values import Function, How, Object, Provenance, Symbol
from memlint.flow.events import Event, EventKind
from memlint.flow.reach import Reach
from memlint.script.call_settings import MISSING, UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS as CHECKPOINTING_ARGUMENTS
from memlint.script.checkpointing import METHODS as CHECKPOINTING_METHODS
from memlint.script.checkpointing import SWITCHES as CHECKPOINTING_OPTIONS
from memlint.script.datasets import Dataset, Preparation
from memlint.script.evaluation import Evaluation
from memlint.script.forward_passes import Forward, Held, Step
from memlint.script.graphs import Graph, Hoard, Sum
from memlint.script.handwritten_losses import LossForm, TokenLoss
from memlint.script.lengths import Effect, Lengths
from memlint.script.loaded_models import ModelFacts
from memlint.script.loop_models import LoopModel
from memlint.script.model import Script, build_script, parse_script
from memlint.script.owners import AttentionOwner, CheckpointingOwner, LossOwner, Owner
from memlint.script.purpose import Purpose
from memlint.script.restoring import Fate
from memlint.script.tokenization import Tokenization
from memlint.script.torchtune import TorchtuneModel
from memlint.script.trained import Trained
from memlint.script.training_loops import Loop

__all__ = [
    "CHECKPOINTING_ARGUMENTS",
    "CHECKPOINTING_METHODS",
    "CHECKPOINTING_OPTIONS",
    "MEASURES",
    "MISSING",
    "UNSURE",
    "AttentionOwner",
    "Call",
    "Certainty",
    "CheckpointingOwner",
    "Config",
    "Dataset",
    "Effect",
    "Evaluation",
    "Event",
    "EventKind",
    "Fate",
    "Flow",
    "Forward",
    "Function",
    "Graph",
    "Held",
    "Hoard",
    "How",
    "Lengths",
    "Loop",
    "LoopModel",
    "LossForm",
    "LossOwner",
    "ModelFacts",
    "Object",
    "Output",
    "Owner",
    "Positions",
    "Preparation",
    "Provenance",
    "Purpose",
    "Reach",
    "Role",
    "Script",
    "Setting",
    "Step",
    "Sum",
    "Symbol",
    "Tensor",
    "TokenLoss",
    "Tokenization",
    "TorchtuneModel",
    "Trained",
    "Trainer",
    "Width",
    "build_script",
    "packages_at_top",
    "parse_script",
]
