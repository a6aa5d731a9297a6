"""The names that ``memlint.rule`` offers to rules."""

from memlint.api import successors
from memlint.api.choices import advised
from memlint.api.refusals import Refusal
from memlint.api.signatures import History
from memlint.engine.project import is_elsewhere
from memlint.engine.values import How, Object, Symbol
from memlint.recipes.recipe import Recipe
from memlint.rule import all_edits as edits
from memlint.rule import recipe_facts as recipes
from memlint.rule import script_facts as facts
from memlint.rule import triggers
from memlint.rule.faults import Rule
from memlint.rule.findings import Finding, Fix, Level
from memlint.rule.kit import (
    IF_TAKEN,
    Skip,
    advise,
    by_change,
    call_after_trainer,
    fix,
    fix_of_model,
    unless_switched_off,
)
from memlint.runs import TrainingRun, places
from memlint.runs.precision import may_lack_bf16, trains_without_bf16
from memlint.script.call_settings import MISSING, UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS as CHECKPOINTING_ARGUMENTS
from memlint.script.checkpointing import SWITCHES as CHECKPOINTING_OPTIONS
from memlint.script.handlers import is_guarded, names_looked_up
from memlint.script.model import Script
from memlint.source import Span
