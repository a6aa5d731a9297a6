"""The hand-written knowledge: every line against the tables, and what it answers."""

from __future__ import annotations

import memlint_runtime
import pytest

from memlint.api.knowledge.behaviours import BEHAVIOURS
from memlint.api.knowledge.gone import MIGRATIONS
from memlint.api.knowledge.ignored import IGNORED
from memlint.api.knowledge.migrations import Migration, rows_of
from memlint.api.knowledge.warned import WARNED
from memlint.api.lookup import Api
from memlint.api.successors import (
    Advice,
    Build,
    Environment,
    Inline,
    Move,
    Remove,
    Rename,
    Replace,
    Runtime,
    Successor,
)
from memlint.api.tables import PACKAGES, table
from memlint.api.target_versions import parse_target

NEW = "trl=1.16,transformers=5.23,peft=0.21,accelerate=1.15,torch=2.13"
OLD = "trl=0.15,transformers=4.49"


@pytest.fixture(scope="module")
def apis() -> dict[str, Api]:
    return {target: Api(parse_target(target)) for target in (NEW, OLD)}


@pytest.mark.parametrize(
    ("target", "name", "parameter", "value", "expected"),
    [
        (NEW, "trl.SFTTrainer", "tokenizer", None, Rename("processing_class")),
        (NEW, "trl.SFTTrainer", "max_seq_length", None, Move("max_length")),
        (OLD, "trl.SFTTrainer", "max_seq_length", None, Move("max_seq_length")),
        (NEW, "trl.SFTTrainer", "packing", None, Move("packing")),
        (NEW, "trl.SFTTrainer", "dataset_batch_size", None, Remove()),
        (NEW, "trl.DPOTrainer", "beta", None, Move("beta")),
        (OLD, "trl.DPOTrainer", "max_prompt_length", None, Move("max_prompt_length")),
        (NEW, "trl.SFTConfig", "evaluation_strategy", None, Rename("eval_strategy")),
        (NEW, "trl.SFTConfig", "warmup_ratio", None, Rename("warmup_steps")),
        (OLD, "trl.SFTConfig", "warmup_ratio", None, None),
        (NEW, "trl.SFTConfig", "logging_dir", None, Environment("TENSORBOARD_LOGGING_DIR")),
        (
            NEW,
            "trl.SFTConfig",
            "group_by_length",
            True,
            Build("train_sampling_strategy", '"group_by_length"'),
        ),
        (NEW, "trl.SFTConfig", "group_by_length", False, Remove()),
        (NEW, "transformers.TrainingArguments", "adafactor", True, Build("optim", '"adafactor"')),
        (NEW, "transformers.TrainingArguments", "overwrite_output_dir", True, Remove()),
        (NEW, "trl.SFTConfig", "gradient_checkpointing", True, Rename("activation_checkpointing")),
        (OLD, "trl.SFTConfig", "activation_checkpointing", True, Rename("gradient_checkpointing")),
        (OLD, "trl.SFTConfig", "max_length", 512, Rename("max_seq_length")),
        (
            NEW,
            "transformers.AutoModelForCausalLM.from_pretrained",
            "torch_dtype",
            None,
            Rename("dtype"),
        ),
        (
            OLD,
            "transformers.LlamaForCausalLM.from_pretrained",
            "dtype",
            None,
            Rename("torch_dtype"),
        ),
        (NEW, "transformers.AutoModel.from_pretrained", "load_in_8bit", False, Remove()),
        (NEW, "trl.DPOConfig", "loss_type", "sigmoid", None),
    ],
)
def test_successors_of_keywords(
    apis: dict[str, Api],
    target: str,
    name: str,
    parameter: str,
    value: object,
    expected: Successor | None,
) -> None:
    found = apis[target].successor(name, parameter, value)
    assert type(found) is type(expected)
    if found is not None and expected is not None:
        for field in set(expected._fields) - {"note", "origin", "safe"}:
            assert getattr(found, field) == getattr(expected, field)


@pytest.mark.parametrize(
    ("target", "name", "expected"),
    [
        (NEW, "trl.ORPOTrainer", "trl.experimental.orpo.ORPOTrainer"),
        (NEW, "trl.OnlineDPOConfig", "trl.experimental.online_dpo.OnlineDPOConfig"),
        (OLD, "trl.experimental.orpo.ORPOConfig", "trl.ORPOConfig"),
        ("trl=1.12", "trl.PPOTrainer", "trl.experimental.ppo.PPOTrainer"),
        (NEW, "transformers.modeling_utils.Conv1D", "transformers.Conv1D"),
        (
            NEW,
            "transformers.deepspeed.HfDeepSpeedConfig",
            "transformers.integrations.HfDeepSpeedConfig",
        ),
        (NEW, "transformers.AdamW", "torch.optim.AdamW"),
        (NEW, "transformers.AutoModelForVision2Seq", "transformers.AutoModelForImageTextToText"),
        (NEW, "trl.SFTTrainer.tokenizer", "transformers.Trainer.processing_class"),
        (
            NEW,
            "transformers.PreTrainedTokenizerFast.encode_plus",
            "transformers.PreTrainedTokenizerBase.__call__",
        ),
        (NEW, "trl.set_seed", "transformers.set_seed"),
    ],
)
def test_successors_of_names(apis: dict[str, Api], target: str, name: str, expected: str) -> None:
    api = apis.get(target) or Api(parse_target(target))
    found = api.successor(name)
    assert isinstance(found, Replace)
    assert found.qualname == expected


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("trl.PPOTrainer", Advice),
        ("trl.setup_chat_format", Replace),
        ("trl.DataCollatorForCompletionOnlyLM", Replace),
        ("trl.get_kbit_device_map", Inline),
        ("trl.SFTTrainer", type(None)),
        ("numpy.zeros", type(None)),
    ],
)
def test_kinds_of_successors(apis: dict[str, Api], name: str, kind: type) -> None:
    assert type(apis[NEW].successor(name)) is kind


def test_a_prompt_limit_goes_to_the_runtime(apis: dict[str, Api]) -> None:
    found = apis[NEW].successor("trl.GRPOConfig", "max_prompt_length", 512)
    assert isinstance(found, Runtime)
    made = found.source.format(trainer="GRPOTrainer", value="512")
    assert made == "limit_prompts(GRPOTrainer, 512)"


def test_quantization_is_built_from_its_parts(apis: dict[str, Api]) -> None:
    found = apis[NEW].successor(
        "transformers.AutoModelForCausalLM.from_pretrained", "load_in_4bit", True
    )
    assert isinstance(found, Build)
    assert found.source.format(value="True") == "BitsAndBytesConfig(load_in_4bit=True)"
    assert found.imports == ("transformers.BitsAndBytesConfig",)


def test_old_optimizer_defaults_are_written_out(apis: dict[str, Api]) -> None:
    found = apis[NEW].successor("transformers.AdamW")
    assert isinstance(found, Replace)
    old = Api(parse_target("transformers=4.40")).signature("transformers.AdamW")
    assert old is not None
    new = apis[NEW].signature("torch.optim.AdamW")
    assert new is not None
    for name, parameter in old.parameters.items():
        if name in new.parameters and new.parameters[name].default != parameter.default:
            assert dict(found.written)[name] == repr(parameter.default).replace("1e-06", "1e-6")
        if name not in new.parameters:
            assert dict(found.arguments)[name] is None


def test_what_warns(apis: dict[str, Api]) -> None:
    api = apis[NEW]
    assert api.warns("trl.SFTConfig", "use_liger_kernel")
    assert not apis[OLD].warns("trl.SFTConfig", "use_liger_kernel")
    assert api.warns("transformers.AutoModelForCausalLM.from_pretrained", "torch_dtype")
    assert not api.warns("transformers.LlamaForCausalLM.from_pretrained", "torch_dtype")
    assert api.warns("trl.SFTConfig", "loss_type", "chunked_nll")
    assert not api.warns("trl.SFTConfig", "loss_type", "nll")


def test_what_does_nothing(apis: dict[str, Api]) -> None:
    api = apis[NEW]
    padding_free = api.ignored("trl.DPOConfig", "padding_free", True)
    assert padding_free is not None
    assert not padding_free.harmless
    assert api.ignored("trl.DPOConfig", "padding_free", False) is None
    assert apis[OLD].ignored("trl.DPOConfig", "padding_free", True) is None
    leftover = api.ignored("transformers.AutoModelForCausalLM.from_pretrained", "low_cpu_mem_usage")
    assert leftover is not None
    assert leftover.harmless
    assert api.ignored("trl.SFTConfig", "packing", True) is None


def _ever(name: str, parameter: str | None) -> bool:
    """True if some release has, or had, ``name`` (and its ``parameter``)."""
    return Api().history(name, parameter) is not None


@pytest.mark.parametrize("line", MIGRATIONS, ids=lambda line: f"{line.owner}:{line.parameter}")
def test_every_line_is_about_something_that_was(line: Migration) -> None:
    assert _ever(line.owner, line.parameter)


@pytest.mark.parametrize("line", MIGRATIONS, ids=lambda line: f"{line.owner}:{line.parameter}")
def test_every_successor_was_there_in_some_release(line: Migration) -> None:
    match line.replacement:
        case Rename(parameter=new) | Build(parameter=new):
            assert _ever(line.owner, new) or Api().accepts(line.owner, new) is None
        case Replace(qualname=new) if new.startswith("memlint_runtime."):
            assert hasattr(memlint_runtime, new.removeprefix("memlint_runtime."))
        case Replace(qualname=new) if not new.endswith(".__call__"):
            assert _ever(new, None) or new.partition(".")[0] not in PACKAGES
        case replacement:
            assert replacement.note or isinstance(replacement, Remove | Inline | Replace)


def test_a_row_is_a_line_for_each_owner_and_option() -> None:
    lines = rows_of("""
a.B c.D
  old since 2.0 | remove unsafely
  low high = True, "no" until 1.2 | new = [{value}] | a list
      of one  # its source
  a.gone | now b.come
""")
    a, b = ("a.B", "c.D")
    made = Build("new", "[{value}]", note="a list of one")
    assert list(lines) == [
        *(Migration(owner, "old", Remove(safe=False), since="2.0") for owner in (a, b)),
        *(Migration(owner, "low", made, (True, "no"), until="1.2") for owner in (a, b)),
        *(Migration(owner, "high", made, (True, "no"), until="1.2") for owner in (a, b)),
        Migration("a.gone", None, Replace("b.come")),
    ]


def test_a_row_without_anything_to_do_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing takes the place"):
        list(rows_of("a.B\n  old | drop it"))


def test_warnings_and_leftovers_are_about_something_that_was() -> None:
    for warned in WARNED:
        assert _ever(warned.owner, warned.parameter)
    for ignored in IGNORED:
        assert _ever(ignored.owner, ignored.parameter) or "Tokenizer" in ignored.owner
    lines = [(line.owner.partition(".")[0], line.since) for line in (*WARNED, *IGNORED)]
    lines += [(package, each) for package, answers in BEHAVIOURS.values() for each in answers]
    for package, since in lines:
        minors = {table(package).minor(n) for n in range(len(table(package).releases))}
        assert not since or since in minors


def test_a_function_of_the_same_name_that_is_called_otherwise_takes_nobodys_place() -> None:
    api = Api(parse_target(NEW))
    moved = api.successor("trl.trainer.utils.pad_to_length")
    assert isinstance(moved, Replace)
    assert moved.qualname == "trl.experimental.utils.pad_to_length"
    # What has this name today wants a model.
    assert isinstance(api.successor("transformers.infer_device"), Advice)
    assert api.successor("trl.trainer.utils.prepare_deepspeed") is None


_OWNERS = (
    "transformers.TrainingArguments",
    "transformers.Trainer",
    "transformers.AutoModelForCausalLM.from_pretrained",
    "transformers.PreTrainedTokenizerBase.__call__",
    "trl.SFTConfig",
    "trl.GRPOConfig",
    "trl.DPOTrainer",
    "peft.LoraConfig",
    "accelerate.Accelerator",
)


@pytest.mark.parametrize("target", [NEW, OLD])
@pytest.mark.parametrize("owner", _OWNERS)
def test_nothing_is_known_of_any_value_of_a_plain_option(
    apis: dict[str, Api], target: str, owner: str
) -> None:
    api = apis[target]
    signature = api.signature(owner)
    taken = set(signature.parameters) if signature is not None else set()
    spoken_of = {line.parameter for line in MIGRATIONS if line.parameter is not None}
    plain = [name for name in taken | spoken_of if api.is_plain(owner, name)]
    assert not taken or plain
    for name in plain:
        values = [True, False, None, 0, "auto"]
        values += [value for line in MIGRATIONS if line.parameter == name for value in line.values]
        assert api.accepts(owner, name) is not False
        assert api.choices(owner, name) is None
        for value in values:
            assert api.successor(owner, name, value) == api.successor(owner, name)
            assert not api.warns(owner, name, value)
            assert api.ignored(owner, name, value) is None


def test_options_that_are_not_plain(apis: dict[str, Api]) -> None:
    def plain(target: str, name: str) -> bool:
        return apis[target].is_plain("transformers.TrainingArguments", name)

    assert plain(NEW, "seed")
    assert not plain(NEW, "evaluation_strategy")  # it is gone
    assert not plain(NEW, "warmup_ratio")  # it warns
    assert not plain(NEW, "lr_scheduler_type")  # one of a few names
    assert not plain(NEW, "no_such_option")
    assert not plain(OLD, "save_only_models")
