"""What a script says beyond calls and settings: steps, forward passes, tensors, data, models."""

from memlint.engine.forwards import Certainty
from memlint.engine.growth import starts_of
from memlint.engine.guards import is_probe
from memlint.engine.preparing import makes_labels
from memlint.engine.tensors import Output, Positions, Role, Tensor
from memlint.engine.values import Function
from memlint.flow.reach import Reach
from memlint.runs.batches import tokens_of_pass
from memlint.runs.loadings import loading_of
from memlint.runs.padding_cuts import cuts_padding
from memlint.script.datasets import Dataset, all_datasets_of, may_shorten_rows, pads_to_longest
from memlint.script.encodings import taken_for_ids
from memlint.script.evaluation import Evaluation, evaluations_of
from memlint.script.forward_passes import Forward, Held, Step, are_of_one_model, forward_at, is_kept
from memlint.script.gradients import (
    detaches_gradients,
    reads_gradients_unchecked,
    trains_all_weights,
)
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
from memlint.script.guesses import may_have_room
from memlint.script.handlers import retries_of, survives_failed_steps
from memlint.script.handwritten_losses import LossForm, TokenLoss
from memlint.script.late_backward import waits_for_backward
from memlint.script.lengths import RowFunction, block_functions_of, row_functions
from memlint.script.loaded_models import ModelFacts, copy_of
from memlint.script.loop_models import LoopModel, draws_anew, frozen_beside, own_models_of
from memlint.script.prompts import completions_together, scored_elsewhere
from memlint.script.purpose import Purpose
from memlint.script.readers import (
    config_assignments,
    decides_by_evaluation,
    may_read_output,
    may_see_outputs,
    metric_of,
    reads_batches,
    reads_predictions,
)
from memlint.script.reads import (
    fillers_of_cache,
    forward_of,
    gets_cache,
    is_vocabulary_wide,
    positions_read,
    reads_as_tuple,
)
from memlint.script.restoring import Fate, fates_of, names_of_device
from memlint.script.script_kind import compiles_one_shape, deciding_call, trains_language_models
from memlint.script.setups import (
    calls_on_trainer,
    kept_by_subclass,
    parsed_arguments_of,
    trainer_overrides,
)
from memlint.script.spelled import (
    attributes_of_class,
    classes_of,
    exports,
    gives_attribute,
    is_handed_to_asker,
    library_class,
    reads_key,
    reads_of_self,
    texts_given_to,
)
from memlint.script.tokenization import Tokenization, filled_lists_of, makes_long_batches
from memlint.script.trained import (
    Trained,
    are_exclusive,
    is_trial,
    last_training,
    lets_go_between,
    makes_each_turn,
    names_let_go_at,
    step_bodies,
)
