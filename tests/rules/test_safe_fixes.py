"""Fixes that must hold back, or write something else, for a script to run and learn as it did."""

from __future__ import annotations

import pytest

from tests.rules.fixing import fixed, found


def test_flags_over_several_lines_stay_one_expression() -> None:
    text = fixed(
        """\
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("m", load_in_4bit=bits == 4
    and not on_cpu, load_in_8bit=bits == 8)
""",
        "MEM901",
    )
    assert "if (bits == 4\n    and not on_cpu) or bits == 8 else None)" in text


def test_a_written_false_is_a_decision() -> None:
    """Advice, and no edit: ``False`` stands there on purpose."""
    text = """\
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out", gradient_checkpointing=False, packing=False)  # measured: it fits
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
"""
    assert fixed(text, "MEM103", "MEM301", unsafe=True) == text
    assert {one.code for one in found(text, "MEM103", "MEM301")} == {"MEM103", "MEM301"}


def messages(text: str, *codes: str, target: str) -> list[str]:
    return [one.fix.message for one in found(text, *codes, target=target) if one.fix]


LIGER = 'from trl import DPOConfig\nargs = DPOConfig("out", use_liger_loss=True)\n'


def test_ligers_loss_becomes_what_the_release_has() -> None:
    """Layer kernels are not the loss, and a deprecated option is no successor."""
    assert 'DPOConfig("out", use_liger_kernel=True)' in fixed(LIGER, "MEM901", target="trl=1.0")
    assert 'DPOConfig("out")' in fixed(LIGER, "MEM901", target="trl=1.15")
    assert fixed(LIGER, "MEM901", target="trl=0.16", unsafe=True) == LIGER
    assert messages(LIGER, "MEM901", target="trl=0.16") == [
        "Do without `use_liger_loss`, or take trl 0.19 or newer"
    ]


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("trl=1.0", "Do without `activation_offloading`, or take trl 1.6 or newer"),
        ("trl=0.12", "Do without `activation_offloading`, or take trl 1.8 or newer"),
    ],
)
def test_advice_names_a_release_that_has_the_option(target: str, advice: str) -> None:
    text = 'from trl import KTOConfig\nargs = KTOConfig("out", activation_offloading=True)\n'
    assert messages(text, "MEM901", target=target) == [advice]


@pytest.mark.parametrize(("target", "option"), [("4.50", "torch_dtype"), ("4.56", "dtype")])
def test_a_model_given_by_name_is_loaded_as_the_target_calls_it(target: str, option: str) -> None:
    text = """\
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out")
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
"""
    new = fixed(text, "MEM401", target=f"trl=0.19,transformers={target}", unsafe=True)
    assert f'model_init_kwargs={{"{option}": "bfloat16"}}' in new


def test_options_that_the_class_lacks_are_left_to_their_own_rule() -> None:
    offload = """\
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out", activation_offloading=True, use_liger_kernel=True)
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
"""
    assert found(offload, "MEM206", target="trl=0.24")
    assert not found(offload, "MEM206", target="trl=0.16")
    gather = """\
from trl import OnlineDPOConfig
args = OnlineDPOConfig("out", deepspeed="zero3.json", ds3_gather_for_generation=True)
"""
    assert found(gather, "MEM602", target="trl=0.16")
    assert not found(gather, "MEM602", target="trl=0.12")
    policy = """\
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig("out", num_generations=8)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
"""
    assert found(policy, "MEM601", target="trl=0.14")
    assert not found(policy, "MEM601", target="trl=0.12")


def applicabilities(text: str, *codes: str, target: str = "") -> list[str]:
    return [one.fix.applicability.value for one in found(text, *codes, target=target) if one.fix]


@pytest.mark.parametrize(
    ("loaded", "applicability"),
    [
        ('AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")', "safe"),
        ('AutoModelForCausalLM.from_pretrained("me/Llama-3.2-1B", device_map={"": 0})', "safe"),
        ('AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")', "unsafe"),
        (
            'AutoModelForCausalLM.from_pretrained("Qwen/Qwen-7B", trust_remote_code=True)',
            "unsafe",
        ),
        ('AutoModelForCausalLM.from_pretrained("google/gemma-3-4b-it")', "unsafe"),
        ('AutoModelForCausalLM.from_pretrained("google/gemma-3-1b-it")', "safe"),
        ('AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")', "unsafe"),
        ('AutoModelForCausalLM.from_pretrained("baichuan-inc/Baichuan2-7B-Base")', "unsafe"),
        ("AutoModelForCausalLM.from_pretrained(sys.argv[1])", "unsafe"),
    ],
)
def test_the_fused_loss_is_safe_for_models_that_the_runtime_certainly_takes(
    loaded: str, applicability: str
) -> None:
    text = f"""\
import sys
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = {loaded}
args = TrainingArguments("out", gradient_checkpointing=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
"""
    assert applicabilities(text, "MEM201") == [applicability]


@pytest.mark.parametrize(
    ("made", "kept", "applicability"),
    [
        ("", "", "safe"),
        ("model.loss_function = smoothed\n", "", "unsafe"),
        ("inner = model.forward\nmodel.forward = outer\n", "", "unsafe"),
        # Without a label a batch has no mean, fused or not.
        ("", "    if not torch.isfinite(loss):\n        continue\n", "safe"),
        ("same = model.forward == other.forward\n", "", "safe"),
    ],
)
def test_the_fused_loss_is_safe_where_nothing_else_makes_it_or_asks_for_it(
    made: str, kept: str, applicability: str
) -> None:
    text = f"""\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{made}optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for ids, labels in loader:
    loss = model(ids, labels=labels).loss
{kept}    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    assert applicabilities(text, "MEM201") == [applicability]


@pytest.mark.parametrize(
    ("model", "options", "applicability"),
    [
        ('"Qwen/Qwen3-4B"', "", "safe"),
        ('"openai/gpt-oss-20b"', "", "safe"),
        ('"XiaomiMiMo/MiMo-V2-Flash"', "", "unsafe"),
        ('"meta-llama/Llama-4-Scout-17B-16E"', "", "display"),
        ('"tiiuae/falcon-7b"', "", "display"),
        ('"nvidia/Minitron-4B-Base"', "", "display"),
        ('"somebody/new-model"', "", "unsafe"),
        ("sys.argv[1]", "", "unsafe"),
        ('"Qwen/Qwen3-4B"', "steps_per_generation=8, gradient_accumulation_steps=4", "unsafe"),
        ('"Qwen/Qwen3-4B"', "steps_per_generation=4, gradient_accumulation_steps=4", "safe"),
        ('"Qwen/Qwen3-4B"', 'loss_type="bnpo", gradient_accumulation_steps=4', "unsafe"),
        ('"Qwen/Qwen3-4B"', 'loss_type="bnpo", gradient_accumulation_steps=1', "safe"),
        ('"Qwen/Qwen3-4B"', "top_entropy_quantile=0.2, gradient_accumulation_steps=4", "unsafe"),
        ('"Qwen/Qwen3-30B-A3B"', "gradient_accumulation_steps=4", "unsafe"),
        (
            '"Qwen/Qwen3-30B-A3B"',
            "gradient_accumulation_steps=4, router_aux_loss_coef=0.0",
            "safe",
        ),
        (
            'PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B"), "a")',
            "",
            "unsafe",
        ),
        ('AutoPeftModelForCausalLM.from_pretrained("Qwen/Qwen3-4B")', "", "unsafe"),
    ],
)
def test_shared_prompts_are_safe_where_nothing_else_is_trained(
    model: str, options: str, applicability: str
) -> None:
    text = f"""\
import sys
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig("out", num_generations=8, max_completion_length=256, {options})
model = {model}
GRPOTrainer(model, reward_funcs=reward, args=args, train_dataset=dataset).train()
"""
    assert applicabilities(text, "MEM601") == [applicability]


def test_a_parameter_stays_one() -> None:
    """Whoever calls the function next may give another length, and other arguments."""
    text = fixed(
        """\
from trl import SFTConfig, SFTTrainer

def train(args, max_seq_length=100):
    return SFTTrainer("m", args=args, train_dataset=d, max_seq_length=max_seq_length)

args = SFTConfig("out")
train(args)
""",
        "MEM901",
    )
    assert "args=extend_arguments(args, SFTConfig, max_length=max_seq_length)" in text
    assert 'args = SFTConfig("out")\n' in text


def test_no_fix_writes_over_a_parameter() -> None:
    text = """\
from trl import SFTConfig, SFTTrainer

def make(length):
    return SFTConfig("out", max_length=length)

SFTTrainer("m", args=make(None), train_dataset=d).train()
"""
    assert fixed(text, "MEM101", unsafe=True) == text
    assert found(text, "MEM101")


def test_trainers_that_share_plain_arguments_get_their_own() -> None:
    """Each made its own of the plain arguments; one object for both would hold one length."""
    text = fixed(
        """\
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("out")
one = SFTTrainer("m", args=args, train_dataset=d, max_seq_length=100)
two = SFTTrainer("m", args=args, train_dataset=e, max_seq_length=200)
""",
        "MEM901",
        "MEM905",
    )
    assert 'args = TrainingArguments("out")\n' in text
    assert 'one = SFTTrainer("m", args=extend_arguments(args, SFTConfig, max_length=100)' in text
    assert 'two = SFTTrainer("m", args=extend_arguments(args, SFTConfig, max_length=200)' in text


def test_trainers_that_share_arguments_and_agree_share_the_option() -> None:
    text = fixed(
        """\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
one = SFTTrainer("m", args=args, train_dataset=d, max_seq_length=100)
two = SFTTrainer("m", args=args, train_dataset=e, max_seq_length=100)
""",
        "MEM901",
    )
    assert 'args = SFTConfig("out", max_length=100)\n' in text


@pytest.mark.parametrize(
    ("load", "applicability"),
    [
        ('AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")', "safe"),
        (
            'AutoModelForCausalLM.from_pretrained("x/y", trust_remote_code=True)',
            "unsafe",
        ),
        ('AutoModelForCausalLM.from_pretrained("x/y", **options)', "unsafe"),
    ],
)
def test_checkpointing_is_safe_for_classes_of_transformers_alone(
    load: str, applicability: str
) -> None:
    script = (
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        f"model = {load}\n"
        'args = TrainingArguments("out", bf16=True)\n'
        "Trainer(model, args, train_dataset=dataset).train()\n"
    )
    assert applicabilities(script, "MEM301") == [applicability]


@pytest.mark.parametrize(
    "trains",
    [
        'Trainer(model, TrainingArguments("out", bf16=True), train_dataset=rows).train()\n',
        "model.cuda().train()\nfor row in rows:\n    model(**row).loss.backward()\n    step()\n",
    ],
)
@pytest.mark.parametrize(
    ("hook", "applicability"), [("register_forward_hook", "unsafe"), ("register_hook", "safe")]
)
def test_hooks_of_the_forward_pass_may_see_what_is_computed_again(
    trains: str, hook: str, applicability: str
) -> None:
    script = (
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")\n'
        f"model.model.layers[3].{hook}(keep)\n{trains}"
    )
    assert applicabilities(script, "MEM301") == [applicability]


@pytest.mark.parametrize(
    ("segment", "safe"), [("self.first, x", False), ("F.cross_entropy, x, labels", True)]
)
def test_the_kind_of_checkpointing_decides_whether_a_segment_is_trained(
    segment: str, safe: bool
) -> None:
    """The reentrant kind gives no gradients to weights where no input wants one."""
    text = f"""\
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
def forward(self, x, labels):
    return checkpoint({segment}, use_reentrant=True)
"""
    mended = text.replace("True", "False")
    assert fixed(text, "MEM303") == (mended if safe else text)
    assert fixed(text, "MEM303", unsafe=True) == mended


def test_frozen_embeddings_make_the_kind_of_checkpointing_unsafe() -> None:
    text = """\
from trl import SFTConfig, SFTTrainer
model.embed_tokens.requires_grad_(False)
args = SFTConfig("out", gradient_checkpointing_kwargs={"use_reentrant": True})
SFTTrainer(model, args=args, train_dataset=dataset).train()
"""
    assert fixed(text, "MEM303") == text
    trained = text.replace("requires_grad_(False)", "cuda()")
    assert fixed(trained, "MEM303") == trained.replace("True", "False")


ZEROED = """\
import torch
from helpers import norms
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    print(loss.item())
"""


@pytest.mark.parametrize(
    ("old", "new", "safe"),
    [
        ("", "", True),
        ("    print", "    if step % 100 == 0: model.save_pretrained('out')\n    print", True),
        ("Qwen/Qwen3-0.6B", "mistralai/Mixtral-8x7B-v0.1", False),
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-30B-A3B", False),
        ("Qwen/Qwen3-0.6B", "FacebookAI/xlm-roberta-base", True),
        ("Qwen/Qwen3-0.6B", "google/mt5-small", True),
        ("Qwen/Qwen3-0.6B", "google/switch-base-8", False),
        ('"Qwen/Qwen3-0.6B"', "name", False),
        ("    print", "    norms(model.parameters())\n    print", False),
        ("    print", "    norms(model)\n    print", False),
        ("    print", "    for hook in hooks: hook(step=1, optimizer=optimizer)\n    print", False),
        (
            "    optimizer.step",
            "    weights = list(model.parameters()); norms(weights)\n    optimizer.step",
            False,
        ),
        ("AdamW(model.parameters()", "AdamW([*model.parameters(), *head.parameters()]", False),
        ("    loss.backward()", "    if loss < 9: loss.backward()", False),
        (
            "    loss.backward()",
            "    loss = loss + model(**other).loss\n    loss.backward()",
            False,
        ),
        ("    print", "    if step > 9: model.lm_head.requires_grad_(False)\n    print", False),
    ],
)
def test_zeros_are_freed_where_no_weight_is_ever_idle(old: str, new: str, safe: bool) -> None:
    text = ZEROED.replace(old, new) if old else ZEROED
    mended = text.replace("set_to_none=False", "")
    assert fixed(text, "MEM503") == (mended if safe else text)
    assert fixed(text, "MEM503", unsafe=True) == mended


@pytest.mark.parametrize(
    "read",
    [
        "[getattr(weight, 'grad').norm() for weight in model.parameters()]",
        "list(map(operator.attrgetter('grad'), model.parameters()))",
        "(lambda: [w.grad.norm() for w in model.parameters()])(); (lambda w: w.grad is None)(w)",
    ],
)
def test_zeros_stay_where_gradients_are_read_unchecked(read: str) -> None:
    text = f"{ZEROED}    {read}\n"
    assert fixed(text, "MEM503", unsafe=True) == text


def test_what_had_no_effect_takes_none_by_a_safe_fix() -> None:
    text = """\
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out")
args.max_seq_length = 512
setattr(args, "warmup_ratio", 0.1)
args.eval_strategy = "no"
args.overwrite_output_dir = True
rows = dataset.filter(lambda row: len(row["text"]) < args.max_seq_length)
SFTTrainer(model, args=args, train_dataset=rows).train()
"""
    assert fixed(text, "MEM901") == text.replace("args.overwrite_output_dir = True\n", "")
    assert "args.max_length = 512" in fixed(text, "MEM901", unsafe=True)
    said = [one.message for one in found(text, "MEM901")]
    ends = ["does nothing here", "does nothing here", "only this script reads"]
    assert sorted(one.rpartition("which ")[2] for one in said) == ends


def test_an_attribute_stays_where_a_function_out_of_sight_gets_it() -> None:
    text = """\
from steps import prepare
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out")
args.overwrite_output_dir = True
Trainer(model, args, train_dataset=prepare(rows)).train()
"""
    gone = text.replace("args.overwrite_output_dir = True\n", "")
    assert fixed(text, "MEM901") == gone
    handed = text.replace("rows", "rows, args")
    assert fixed(handed, "MEM901") == handed
    assert fixed(handed, "MEM901", unsafe=True) == gone.replace("rows", "rows, args")
    assert not list(found(text.replace("Trainer(model", "prepare(model"), "MEM901"))


@pytest.mark.parametrize(
    ("checkpoint", "applicability"), [("Qwen/Qwen3-0.6B", "safe"), ("gpt2-medium", "unsafe")]
)
def test_attention_stays_where_it_drops_weights(checkpoint: str, applicability: str) -> None:
    text = f"""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("{checkpoint}", attn_implementation="eager")
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
"""
    (finding,) = found(text, "MEM304")
    assert finding.fix is not None
    assert finding.fix.applicability.value == applicability


_LOOP = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).to("cuda")
{line}
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("print(model.lm_head.weight.dtype)", True),
        ("model.lm_head = InFloat32(model.lm_head)", False),
        ("model.set_output_embeddings(InFloat32(model.lm_head))", False),
    ],
)
def test_no_loss_is_fused_safely_with_a_head_of_the_scripts_own(line: str, safe: bool) -> None:
    """The runtime takes linear heads alone: ``InFloat32`` may be any module."""
    text = _LOOP.format(line=line)
    assert ("fuse_causal_lm_loss" in fixed(text, "MEM201")) is safe
    assert "fuse_causal_lm_loss" in fixed(text, "MEM201", unsafe=True)


def test_a_term_of_the_reward_does_not_go_by_a_safe_fix() -> None:
    text = """\
from trl import RLOOConfig
args = RLOOConfig("out", missing_eos_penalty=1.0, local_rollout_forward_batch_size=4)
"""
    assert 'RLOOConfig("out", missing_eos_penalty=1.0)' in fixed(text, "MEM901")
    assert 'RLOOConfig("out")' in fixed(text, "MEM901", unsafe=True)


PLACES = """\
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids in loader:
    {}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SQUARED = "[-1].pow(2).mean()"
ASKED = "model(ids, labels=ids, output_hidden_states=True{})"


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        (f"out = {ASKED}\n    loss = out[0] + out[3]{SQUARED}", ["MEM302"]),
        (f"loss, logits, cache, states = {ASKED.format(', return_dict=False')}", ["MEM302"]),
        (f"loss, _, *rest = {ASKED}.to_tuple()\n    loss = loss + rest[1]{SQUARED}",
         ["MEM302", "MEM306"]),
        ("out = model(ids, labels=ids)\n    loss = F.cross_entropy(out[1].flatten(0, 1), ids[0])",
         ["MEM201", "MEM208"]),
        (f"out = {ASKED}\n    loss = out.loss + look(*out.to_tuple())", ["MEM302"]),
    ],
)  # fmt: skip
def test_no_safe_fix_moves_what_is_read_by_its_place(step: str, codes: list[str]) -> None:
    """Without a cache, hidden states or a loss what stood behind them moves up."""
    text = PLACES.format(step.replace("True{})", "True)"))
    assert fixed(text, *codes) == text


@pytest.mark.parametrize(
    "step",
    [
        "loss = model(ids, labels=ids)[0]",
        "out = model(ids, labels=ids)\n    loss = out[0] + out[1].mean()",
        "out = model(ids, labels=ids)\n    loss = out['loss'] + out.logits.mean()",
    ],
)
def test_what_stands_before_a_cache_does_not_move(step: str) -> None:
    text = PLACES.format(step)
    outlives = "out =" in step
    assert ("use_cache=False" in fixed(text, "MEM302")) == outlives


def test_a_graph_that_a_method_keeps_is_left_alone() -> None:
    text = """\
import lightning as L
class Lit(L.LightningModule):
    def training_step(self, batch, batch_idx):
        loss = self.model(**batch).loss
        self.manual_backward(loss, retain_graph=True)
"""
    assert not found(text, "MEM704")


@pytest.mark.parametrize("asks", ["locals()", "eval('out.logits')", "vars()", "dir()"])
def test_outputs_that_a_function_may_read_by_name_stay(asks: str) -> None:
    loop = PLACES.format("out = model(ids, labels=ids)\n    loss = out.loss")
    head, _, turn = loop.partition("for ids in loader:")
    lines = "".join(f"    {line}\n" for line in f"for ids in loader:{turn}".splitlines())
    text = f"{head}def train():\n{lines}"
    assert "del out" in fixed(text, "MEM307")
    asked = f"{text}        print({asks})\ntrain()\n"
    assert fixed(asked, "MEM307") == asked


KEPT = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
losses, total = [], 0
for step, batch in enumerate(loader):
    loss = model(**batch).loss
    {tag}
    {keep}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print({read})
"""


@pytest.mark.parametrize(
    ("tag", "keep", "read"),
    [
        ("loss.tag = step", "losses.append(loss)", "losses[0].tag"),
        ("loss.tag = step", "losses.append(loss)", "report(losses)"),
        ("setattr(loss, 'tag', step)", "losses.append(loss)", "[one.tag for one in losses]"),
        ("loss.tag = step", "losses.append({'loss': loss})", "getattr(losses[0]['loss'], 'tag')"),
        ("pass", "losses.append(loss)", "losses[0].requires_grad"),
        ("pass", "total += loss", "total.grad_fn"),
    ],
)
def test_a_tensor_is_kept_as_it_is_where_its_own_attributes_are_asked(
    tag: str, keep: str, read: str
) -> None:
    text = KEPT.format(tag=tag, keep=keep, read=read)
    assert found(text, "MEM701", "MEM702")
    assert fixed(text, "MEM701", "MEM702") == text


@pytest.mark.parametrize(
    ("keep", "read"),
    [("losses.append(loss)", "losses[0].shape"), ("total += loss", "total.item()")],
)
def test_a_tensor_that_is_only_read_is_kept_without_its_graph(keep: str, read: str) -> None:
    text = KEPT.format(tag="loss.tag = step" if "total" in keep else "pass", keep=keep, read=read)
    assert "loss.detach()" in fixed(text, "MEM701", "MEM702")


def test_states_in_8_bits_have_no_option_of_the_optimizer_that_they_replace() -> None:
    """A second fix adds an option of torch's Adam, which bitsandbytes' refuses."""
    text = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.float32).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    assert {one.code for one in found(text, "MEM501", "MEM507")} == {"MEM501", "MEM507"}
    assert "AdamW8bit(model.parameters())" in fixed(text, "MEM501", "MEM507", unsafe=True)
    assert "AdamW(model.parameters(), fused=True)" in fixed(text, "MEM501", "MEM507")
