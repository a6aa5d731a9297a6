"""What a script says beyond calls and settings: steps, forward passes, tensors, data, models.

A rule writes ``facts.Step``. The values come from `Script`; these are their types, and questions
that few rules ask.
"""

from memlint.engine.forwards import Certainty
from memlint.engine.growth import starts_of
from memlint.engine.tensors import Output, Positions, Role, Tensor
from memlint.engine.values import Function
from memlint.flow.reach import Reach
from memlint.script.datasets import Dataset, may_shorten_rows
from memlint.script.encodings import taken_for_ids
from memlint.script.evaluation import Evaluation, evaluations_of
from memlint.script.forward_passes import Forward, Held, Step, are_of_one_model, forward_at
from memlint.script.frozen import FrozenPass
from memlint.script.gradients import detaches_gradients, reads_gradients_unchecked
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
from memlint.script.lengths import block_functions_of
from memlint.script.loaded_models import ModelFacts, copy_of
from memlint.script.loop_models import LoopModel, own_models_of
from memlint.script.metrics import metric_of
from memlint.script.outputs import config_assignments, may_read_output
from memlint.script.prompts import completions_together, scored_elsewhere
from memlint.script.purpose import Purpose
from memlint.script.readers import (
    decides_by_evaluation,
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
from memlint.script.setups import calls_on_trainer, trainer_overrides
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
from memlint.script.tokenization import Tokenization
from memlint.script.trained import (
    Trained,
    are_exclusive,
    last_training,
    lets_go_between,
    makes_each_turn,
    step_bodies,
)
from memlint.script.version_guards import retries_of
