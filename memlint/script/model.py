"""The script model: what rules see of a training script.

Calls by qualified name with their settings, configurations and trainers joined to each other,
models with what wraps them, hand-written loops, and the facts that no single call holds. Lists are
in source order and computed when first asked for.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property

from memlint.api.lookup import Api
from memlint.engine.command_line import CommandLine, Given
from memlint.engine.interpreter import Interpreter
from memlint.engine.project import Project, is_elsewhere
from memlint.engine.values import UNKNOWN, Object, Symbol
from memlint.script import (
    forward_passes,
    gradients,
    graphs,
    guesses,
    loaded_models,
    owners,
    prompts,
    reads,
    script_kind,
    setups,
    tokenization,
    weight_precision,
)
from memlint.script.call_effects import known_effects
from memlint.script.call_settings import unified
from memlint.script.calls import Host
from memlint.script.datasets import datasets_of, streams_data
from memlint.script.evaluation import frozen_modules_of
from memlint.script.handwritten_losses import token_losses
from memlint.script.launcher import Launcher
from memlint.script.loop_models import frozen_passes, loop_models_of
from memlint.script.torchtune import torchtune_model
from memlint.script.trained import is_sharded, trained_models
from memlint.source import Source
from memlint.source.parsing import parse_python

_EFFECTS = known_effects()


class Script(Host):
    """One script, read once. Build it with :func:`build_script`.

    A list of questions: each is answered by a function of the file that knows the answer. What
    begins with an underscore is for the files of this package.
    """

    def forget(self) -> None:
        """Break the reference cycles of a script, so that its memory is freed at once."""
        vars(self._run).clear()
        vars(self).clear()

    # -- names -----------------------------------------------------------------------------------

    def attribute_reads(self) -> Iterator[tuple[ast.Attribute, Object | Symbol]]:
        """The attributes that some path reads off something of a known type or name, with it."""
        values = self._run.values
        for node in values:
            if node.__class__ is ast.Attribute and node.ctx.__class__ is ast.Load:
                assert isinstance(node, ast.Attribute)
                if is_elsewhere(node):
                    continue
                value = unified(values.get(node.value, UNKNOWN))
                if isinstance(value, Symbol) or (
                    isinstance(value, Object) and value.type is not None
                ):
                    yield node, value

    # -- configurations and trainers -------------------------------------------------------------

    configs = cached_property(setups.configs_of)
    config_of = setups.config_of
    trainers = cached_property(setups.trainers_of)
    training = cached_property(setups.training_of)
    all_trainers = cached_property(setups.all_trainers_of)
    all_training = cached_property(setups.all_training_of)
    trains = cached_property(setups.trains)
    may_train = cached_property(setups.may_train)
    trainers_with = setups.trainers_with
    training_with = setups.training_with
    may_train_with = setups.may_train_with
    trainer_invocations = cached_property(setups.invocations_of_trainers)
    trainer_uses = setups.trainer_uses

    # -- models ----------------------------------------------------------------------------------

    model_facts = loaded_models.model_facts
    model_loads = cached_property(loaded_models.model_loads_of)
    calls_on = loaded_models.calls_on
    is_quantized = staticmethod(loaded_models.is_quantized)
    loads_language_model = staticmethod(loaded_models.is_language_model)
    trains_model = weight_precision.trains_model
    given_dtype = staticmethod(weight_precision.given_dtype)
    dtype_name = staticmethod(weight_precision.dtype_name)
    dtype_option = weight_precision.dtype_option
    weights_dtype = weight_precision.weights_dtype
    loads_float32 = weight_precision.loads_float32
    casts_of = weight_precision.casts_of

    # -- what is trained -------------------------------------------------------------------------

    loop_models = cached_property(loop_models_of)
    trained = cached_property(trained_models)
    is_sharded = cached_property(is_sharded)
    trains_causal_lm = cached_property(script_kind.trains_causal_lm)

    # -- loops and steps -------------------------------------------------------------------------

    loops = cached_property(forward_passes.handwritten_loops)
    forwards = cached_property(forward_passes.forwards_of)
    all_forwards = cached_property(forward_passes.all_forwards_of)
    frozen_passes = cached_property(frozen_passes)
    steps = cached_property(forward_passes.steps_of)
    accumulation = cached_property(gradients.accumulation_of)
    loss_divisor = cached_property(gradients.loss_divisor_of)
    torchtune = cached_property(torchtune_model)
    needs_gradients_in_place = cached_property(gradients.needs_gradients_in_place)
    frozen_modules = cached_property(frozen_modules_of)

    # -- what outlives a turn --------------------------------------------------------------------

    graph_of = graphs.graph_of

    # -- tensors ---------------------------------------------------------------------------------

    is_sometimes_tensor = reads.is_sometimes_tensor
    token_losses = cached_property(token_losses)
    fields_read = reads.fields_read
    moves_others = reads.moves_others

    # -- prompts and completions -----------------------------------------------------------------

    repeating_trainers = prompts.repeating_trainers
    prompt_limit = prompts.prompt_limit

    # -- data sets -------------------------------------------------------------------------------

    datasets = cached_property(datasets_of)
    streams_data = cached_property(streams_data)
    lengths_may_differ = tokenization.lengths_may_differ
    tokenizations = cached_property(tokenization.tokenizations_of)

    # -- owners ----------------------------------------------------------------------------------

    avoids_logits = cached_property(owners.avoids_logits)
    owner_of_loss = owners.owner_of_loss
    attention_of = owners.attention_of
    attention_setters = cached_property(owners.attention_setters_of)
    sets_attention = cached_property(owners.sets_attention)
    owner_of_checkpointing = owners.owner_of_checkpointing

    # -- facts -----------------------------------------------------------------------------------

    uses_unsloth = cached_property(owners.uses_unsloth)
    off_cuda = cached_property(script_kind.off_cuda)
    uses_vision = cached_property(script_kind.uses_vision)
    uses_diffusion = cached_property(script_kind.uses_diffusion)
    on_gpu = cached_property(script_kind.on_gpu)
    words = cached_property(guesses.words_of)
    may_use = guesses.may_use
    may_checkpoint = cached_property(guesses.may_checkpoint)
    matches = guesses.matches


def build_script(
    source: Source,
    api: Api,
    project: Project | None = None,
    *,
    given: Mapping[str, Given] | None = None,
    launcher: Launcher | None = None,
    tree: ast.Module | None = None,
) -> Script:
    """Read a script; with ``project``, what it calls of the files around it as well.

    given: the settings of its launch command; None where no command is known. launcher: what the
    command decides beside them. tree: that of the script, where it is parsed already.

    Raises as ``parse_python`` does.
    """
    tree = parse_python(source.text) if tree is None else tree
    launcher = Launcher() if launcher is None else launcher
    command_line: CommandLine | None = None
    if given is not None:
        command_line = CommandLine(
            given,
            lambda name, option: api.history(api.canonical(name), option) is not None,
            lambda name, option: api.accepts(api.canonical(name), option) is True,
            complete=launcher.complete,
        )
    run = Interpreter(_EFFECTS, project, command_line, source.text.split("\n"))
    run.processes = launcher.processes
    run.run(tree)
    if command_line is not None:
        run.trees.append(command_line.module)
    return Script(source, tree, api, run, launcher)
