"""What a script says beyond calls and settings: steps, forward passes, tensors, data, models.

A rule writes ``facts.Step``. The values come from `Script`; these are their types, and questions
that few rules ask.
"""

from memlint.engine.forwards import Certainty
from memlint.engine.growth import starts_of
from memlint.engine.tensors import Output, Positions, Role, Tensor, Width
from memlint.engine.values import Function
from memlint.flow.events import events_of
from memlint.flow.reach import Reach
from memlint.script.datasets import Dataset, Preparation, may_shorten_rows
from memlint.script.encodings import taken_for_ids
from memlint.script.evaluation import Evaluation, evaluations_of
from memlint.script.forward_passes import Forward, Held, Step, are_of_one_model, forward_at
from memlint.script.frozen import FrozenPass
from memlint.script.gradients import detaches_gradients, reads_gradients_unchecked, steps_optimizer
from memlint.script.graphs import (
    Graph,
    Hoard,
    Sum,
    comes_from,
    hoards_of,
    reach_of_graph,
    reach_of_hoard,
    reach_of_sum,
    sums_of,
)
from memlint.script.handlers import survives_failed_steps
from memlint.script.handwritten_losses import LossForm, TokenLoss, are_only_gathered
from memlint.script.idle import trains_all_weights
from memlint.script.lengths import Effect, Lengths, block_functions_of
from memlint.script.loaded_models import ModelFacts, copy_of
from memlint.script.loop_models import LoopModel, own_models_of
from memlint.script.metrics import metric_of
from memlint.script.outputs import config_assignments, may_read_output
from memlint.script.owners import Owner
from memlint.script.prompts import completions_together, scored_elsewhere
from memlint.script.purpose import Purpose
from memlint.script.readers import (
    decides_by_evaluation,
    logit_reads,
    may_see_outputs,
    reads_batches,
    reads_predictions,
)
from memlint.script.reads import (
    fillers_of_cache,
    forward_of,
    gets_cache,
    is_vocabulary_wide,
    positions_read,
)
from memlint.script.restoring import Fate, device_names, fates_of
from memlint.script.row_functions import RowFunction, row_functions
from memlint.script.script_kind import compiles_one_shape, deciding_call, trains_language_models
from memlint.script.setups import calls_on_trainer, trainer_of, trainer_overrides
from memlint.script.spelled import (
    attributes_of_class,
    exports,
    functions_defined,
    has_string,
    is_handed_to_asker,
    reads_key,
    reads_of_self,
    sets_attribute,
    texts_given_to,
    uses_of_name,
)
from memlint.script.subclasses import kept_by_subclass
from memlint.script.tokenization import Tokenization, may_truncate
from memlint.script.torchtune import TorchtuneModel
from memlint.script.trained import (
    Trained,
    are_exclusive,
    last_training,
    lets_go_between,
    makes_each_turn,
    step_bodies,
)
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
    "are_exclusive",
    "are_of_one_model",
    "are_only_gathered",
    "attributes_of_class",
    "block_functions_of",
    "calls_on_trainer",
    "comes_from",
    "compiles_one_shape",
    "completions_together",
    "config_assignments",
    "copy_of",
    "decides_by_evaluation",
    "deciding_call",
    "detaches_gradients",
    "device_names",
    "evaluations_of",
    "events_of",
    "exports",
    "fates_of",
    "fillers_of_cache",
    "forward_at",
    "forward_of",
    "functions_defined",
    "gets_cache",
    "has_string",
    "hoards_of",
    "is_handed_to_asker",
    "is_vocabulary_wide",
    "kept_by_subclass",
    "last_training",
    "lets_go_between",
    "logit_reads",
    "makes_each_turn",
    "may_read_output",
    "may_see_outputs",
    "may_shorten_rows",
    "may_truncate",
    "metric_of",
    "own_models_of",
    "positions_read",
    "reach_of_graph",
    "reach_of_hoard",
    "reach_of_sum",
    "reads_batches",
    "reads_gradients_unchecked",
    "reads_key",
    "reads_of_self",
    "reads_predictions",
    "retries_of",
    "row_functions",
    "scored_elsewhere",
    "sets_attribute",
    "starts_of",
    "step_bodies",
    "steps_optimizer",
    "sums_of",
    "survives_failed_steps",
    "taken_for_ids",
    "texts_given_to",
    "trainer_of",
    "trainer_overrides",
    "trains_all_weights",
    "trains_language_models",
    "uses_of_name",
]
