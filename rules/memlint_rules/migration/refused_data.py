"""What a trainer refuses of its arguments: data, collators, rewards."""

from collections.abc import Iterator

from memlint.rule import UNSURE, Config, Object, Script, Setting, Trainer, advise, facts
from memlint_rules.migration.refused_models import FUSED, Refused

_MASKS = ("completion_mask", "assistant_masks")
_OF_T5 = ("AutoModelForSeq2SeqLM", "T5ForConditionalGeneration")


def refused_data(script: Script, trainer: Trainer) -> Iterator[Refused]:
    config = trainer.config
    if config is not None:
        yield from _no_evaluation_data(script, trainer, config)
        yield from _collator(script, trainer, config)
        yield from _weights(script, trainer, config)
        yield from _masks(script, trainer, config)


def asked(trainer: Trainer, name: str) -> object:
    """Return what a trainer is given, as rows of the tables ask for it.

    None for what is not given; UNSURE for what nobody can tell.
    """
    if name in ("peft", "model.peft"):
        adapted = trainer.peft if name == "peft" else trainer.model.peft
        return UNSURE if adapted is None else adapted
    if name == "model.t5":
        return trainer.model.loader in _OF_T5 and "t5" in trainer.model.checkpoint
    owner = trainer.config if name.startswith("args.") else trainer
    setting = owner.setting(name.removeprefix("args.")) if owner is not None else None
    if setting is None or setting.given is False or setting.value is False:
        return None
    same = isinstance(setting.value, Object) and setting.value is trainer.setting("model").value
    if same and name == "ref_model":
        return "the model"
    return _certain(setting) if setting.given else UNSURE


def _certain(setting: Setting) -> object:
    if isinstance(setting.raw, facts.Function):
        return setting.raw
    value = setting.value
    is_unseen = isinstance(value, Object) and value.type is None and value.cls is None
    return value if setting.known and not is_unseen else UNSURE


def _no_evaluation_data(script: Script, trainer: Trainer, config: Config) -> Iterator[Refused]:
    """Evaluation is scheduled, and there is nothing to evaluate."""
    data, strategy = trainer.setting("eval_dataset"), config.setting("eval_strategy")
    if trainer.has_unknown_keywords or not (data.given is False or data.is_none):
        return
    if script.api.behaviour("evaluation-without-data") != "refused":
        return
    written = strategy.given and not strategy.is_overridable_default
    if not written or strategy.value not in ("steps", "epoch"):
        return
    if len(script.trainers_with(config)) < 2:
        yield (
            strategy.node,
            f"`eval_strategy={strategy.value!r}` without an `eval_dataset`",
            advise("Give the trainer an `eval_dataset`, or do without `eval_strategy`"),
        )


def _collator(script: Script, trainer: Trainer, config: Config) -> Iterator[Refused]:
    """A collator of the script's own beside rows without padding."""
    if not script.api.is_a(trainer.kind, "trl.SFTTrainer"):
        return
    without_padding = script.api.behaviour("padding-free-packing").split()
    if config.packing == "padding_free" or config.setting("padding_free").value is True:
        option = "padding_free"
    elif config.packing is not None and config.packing in without_padding:
        option = "packing"
    else:
        return
    given = asked(trainer, "data_collator")
    if (
        given is not None
        and given is not UNSURE
        and script.api.behaviour("padding-free-collator") == "refused"
    ):
        yield (
            trainer.keyword_node("data_collator"),
            f"`{option}` brings its own collator",
            advise(f"Remove `data_collator`, or `{option}` where the collator is needed"),
        )


def _weights(script: Script, trainer: Trainer, config: Config) -> Iterator[Refused]:
    weights, rewards = config.setting("reward_weights"), trainer.setting("reward_funcs")
    count = len(rewards.value) if isinstance(rewards.value, list) else None
    elements = getattr(rewards.raw, "items", None)
    if count is None and elements is not None and not getattr(rewards.raw, "open", True):
        count = len(elements)
    if not isinstance(weights.value, list) or count in (None, len(weights.value)):
        return
    if not script.api.is_a(trainer.kind, *FUSED):
        return
    if script.api.behaviour("reward-weights") == "one each":
        yield (
            weights.node,
            f"{len(weights.value)} reward weights for {count} reward functions",
            advise("Give one weight for each reward function"),
        )


def _masks(script: Script, trainer: Trainer, config: Config) -> Iterator[Refused]:
    """A mask of the script's own, of which labels would be made while the data is prepared."""
    if trainer.kind != "trl.SFTTrainer" or trainer.skips_preparation is not True:
        return
    # With images, a collator that reads masks makes the labels.
    if script.may_use("labels", "image") or asked(trainer, "data_collator") is not None:
        return
    if script.api.behaviour("masks-without-preparation") != "refused":
        return
    own = [data for data in facts.all_datasets_of(script) if data.call.node is trainer.node]
    mask = next(filter(None, map(_mask_of, own)), "")
    if mask:
        reason = f"`{mask}` without `labels`, which `skip_prepare_dataset` leaves unmade"
        answer = advise("Give the rows `labels`: ids, and -100 where the mask is 0")
        yield config.setting("dataset_kwargs").node, reason, answer


def _mask_of(data: facts.Dataset) -> str:
    """The mask that the rows of a data set certainly get."""
    # What renames or takes away columns may do so with these.
    if any("_column" in one.operation for one in data.preparations):
        return ""
    makers = {one.function for one in (*data.invocations, *data.fillings)}
    makers |= {one.function for one in data.preparations}
    return next((one for one in _MASKS if any(facts.makes_labels(m, one) for m in makers)), "")
