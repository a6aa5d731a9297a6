"""The model of a training script: ``build_script(source, api)``."""

from memlint.script.calls import Call, Config, ModelFacts, Trainer
from memlint.script.model import Loop, Script, build_script
from memlint.script.references import Reference
from memlint.script.settings import MISSING, UNSURE, Setting
from memlint.script.values import Function, How, Object, Origin, Symbol

__all__ = [
    "MISSING",
    "UNSURE",
    "Call",
    "Config",
    "Function",
    "How",
    "Loop",
    "ModelFacts",
    "Object",
    "Origin",
    "Reference",
    "Script",
    "Setting",
    "Symbol",
    "Trainer",
    "build_script",
]
