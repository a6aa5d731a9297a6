"""Ten training scripts with faults whose fixes save memory: what `correctness_verify` runs.

Each makes its model from a configuration, its tokenizer and its data, so that it needs no network.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SCRIPTS", "SMALL", "WIDE", "Script", "Size"]


class Size(NamedTuple):
    """The shape of a script's model and batch. rows, tokens: of a micro-batch."""

    hidden: int
    layers: int
    heads: int
    words: int
    rows: int
    tokens: int
    device: str = "cuda"
    bf16: bool = True


class Script(NamedTuple):
    """A script's text with the fields of `Size` in it, and the size for a GPU.

    unsafe: rules, some of whose fixes are unsafe, that `verify` is to apply in a run of their own.
    """

    text: str
    size: Size
    unsafe: tuple[str, ...] = ()

    def at(self, size: Size) -> str:
        """Return the text for a size."""
        text = self.text
        for name, value in size._asdict().items():
            text = text.replace(f"@{name}", str(value))
        return text


WIDE = Size(hidden=1024, layers=12, heads=16, words=128_000, rows=4, tokens=1024)
_FEW_WORDS = WIDE._replace(words=32_000)
SMALL = Size(hidden=32, layers=2, heads=4, words=512, rows=2, tokens=32, device="cpu", bf16=False)

_TOP = """\
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, @imports

torch.manual_seed(0)
said = "the model reads a short story about tall trees and slow rivers far from home".split()
words = {word: index for index, word in enumerate(["<pad>", "<eos>", "<unk>", *said])}
core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
lines = [
    " ".join(said[(row + step * step) % len(said)] for step in range(@tokens)) for row in range(64)
]
"""
_CAUSAL = """\
config = Qwen2Config(
    hidden_size=@hidden,
    intermediate_size=3 * @hidden,
    num_hidden_layers=@layers,
    num_attention_heads=@heads,
    num_key_value_heads=@heads,
    vocab_size=@words,
    max_position_embeddings=2 * @tokens,
    tie_word_embeddings=True,
    pad_token_id=0,
    eos_token_id=1,
    bos_token_id=None,
)
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
"""


def _made(imports: str, rest: str, size: Size, unsafe: tuple[str, ...] = ()) -> Script:
    return Script(_TOP.replace("@imports", imports) + rest, size, unsafe)


def _causal(rest: str, size: Size = WIDE, unsafe: tuple[str, ...] = ()) -> Script:
    return _made("AutoModelForCausalLM, Qwen2Config", _CAUSAL + rest, size, unsafe)


_SFT = """\
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=@rows,
    bf16=@bf16,
    learning_rate=1e-4,
    max_steps=4,
    report_to="none",
)
data = Dataset.from_dict({"text": lines})
trainer = SFTTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer)
trainer.train()
"""
_LORA = """\
from peft import LoraConfig
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=@rows,
    bf16=@bf16,
    learning_rate=1e-4,
    max_steps=4,
    report_to="none",
)
lora = LoraConfig(r=16, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
data = Dataset.from_dict({"text": lines})
trainer = SFTTrainer(
    model=model, args=args, train_dataset=data, processing_class=tokenizer, peft_config=lora
)
trainer.train()
"""
_DPO = """\
import copy

from trl import DPOConfig, DPOTrainer

args = DPOConfig(
    output_dir="out",
    per_device_train_batch_size=@rows,
    max_length=@tokens,
    gradient_checkpointing=False,
    bf16=@bf16,
    learning_rate=1e-4,
    max_steps=4,
    report_to="none",
)
data = Dataset.from_dict({"prompt": ["read"] * 64, "chosen": lines, "rejected": lines[::-1]})
trainer = DPOTrainer(
    model=model,
    ref_model=copy.deepcopy(model),
    args=args,
    train_dataset=data,
    processing_class=tokenizer,
)
trainer.train()
"""
_GRPO = """\
from trl import GRPOConfig, GRPOTrainer


def even(completions, **kwargs):
    return [float(len(each) % 2) for each in completions]


args = GRPOConfig(
    output_dir="out",
    per_device_train_batch_size=@rows,
    num_generations=@rows,
    max_completion_length=64,
    gradient_checkpointing=False,
    bf16=@bf16,
    learning_rate=1e-5,
    max_steps=3,
    report_to="none",
)
data = Dataset.from_dict({"prompt": lines})
trainer = GRPOTrainer(
    model=model, reward_funcs=even, args=args, train_dataset=data, processing_class=tokenizer
)
trainer.train()
"""
_REWARD = """\
config = Qwen2Config(
    hidden_size=@hidden,
    intermediate_size=3 * @hidden,
    num_hidden_layers=@layers,
    num_attention_heads=@heads,
    num_key_value_heads=@heads,
    vocab_size=@words,
    max_position_embeddings=2 * @tokens,
    pad_token_id=0,
    eos_token_id=1,
    bos_token_id=None,
    num_labels=1,
)
model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
from trl import RewardConfig, RewardTrainer

torch.save(model.state_dict(), "start.pt")
state = torch.load("start.pt", map_location="@device")
model.load_state_dict(state)
args = RewardConfig(
    output_dir="out",
    per_device_train_batch_size=@rows,
    max_length=@tokens,
    bf16=@bf16,
    learning_rate=1e-5,
    max_steps=4,
    report_to="none",
)
# Longer rows than max_length are left out, and each gets an end token.
lines = [line[: line.rindex(" ")] for line in lines]
data = Dataset.from_dict({"chosen": lines, "rejected": lines[::-1]})
RewardTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer).train()
"""
_SEQ2SEQ = """\
config = T5Config(
    d_model=@hidden,
    d_kv=64,
    d_ff=2 * @hidden,
    num_layers=@layers,
    num_decoder_layers=@layers,
    num_heads=@heads,
    vocab_size=@words,
    dropout_rate=0.0,
    pad_token_id=0,
    eos_token_id=1,
    decoder_start_token_id=0,
)
model = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32)


def encode(rows):
    batch = tokenizer(rows["text"], truncation=True, max_length=@tokens)
    batch["labels"] = tokenizer(rows["text"], truncation=True, max_length=128)["input_ids"]
    return batch


data = Dataset.from_dict({"text": lines}).map(encode, batched=True, remove_columns=["text"])
args = Seq2SeqTrainingArguments(
    output_dir="out",
    per_device_train_batch_size=@rows,
    bf16=@bf16,
    learning_rate=1e-4,
    max_steps=4,
    report_to="none",
)
trainer = Seq2SeqTrainer(
    model=model,
    args=args,
    train_dataset=data,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    processing_class=tokenizer,
)
trainer.train()
"""
_TOKENIZED = """\


def encode(rows):
    batch = tokenizer(rows["text"], truncation=True, max_length=@tokens, padding="max_length")
    batch["labels"] = batch["input_ids"]
    return batch


data = Dataset.from_dict({"text": lines}).map(encode, batched=True, remove_columns=["text"])
"""
_ACCELERATE = f"""\
from accelerate import Accelerator
from torch.utils.data import DataLoader
{_TOKENIZED}data = data.with_format("torch")
accelerator = Accelerator(mixed_precision="bf16")
loader = DataLoader(data, batch_size=@rows)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
model.train()
for batch in loader:
    outputs = model(**batch)
    loss = outputs.loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    print(loss.item())
"""
_PLAIN = f"""\
from torch.utils.data import DataLoader
{_TOKENIZED}data = data.with_format("torch")
model.to("@device")
loader = DataLoader(data, batch_size=@rows)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
total = 0
model.train()
for batch in loader:
    ids, labels = batch["input_ids"].to("@device"), batch["labels"].to("@device")
    loss = model(input_ids=ids, labels=labels).loss
    total += loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
print(total)
"""
_FULL_LOGITS = f"""\
from torch.utils.data import DataLoader
{_TOKENIZED}data = data.with_format("torch")
model.to("@device", torch.bfloat16)
loader = DataLoader(data, batch_size=@rows)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    ids = batch["input_ids"].to("@device")
    logits = model(input_ids=ids, use_cache=False).logits.float()
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
"""
_TRAINER = f"""\
from transformers import Trainer, TrainingArguments
{_TOKENIZED}parts = data.train_test_split(test_size=16, seed=0)
args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=@rows,
    bf16=@bf16,
    eval_strategy="steps",
    eval_steps=1,
    learning_rate=1e-4,
    max_steps=4,
    report_to="none",
)
Trainer(
    model=model, args=args, train_dataset=parts["train"], eval_dataset=parts["test"]
).train()
"""

SCRIPTS = {
    "sft": _causal(_SFT),
    "dpo": _causal(_DPO, WIDE._replace(rows=2), ("MEM405",)),
    "grpo": _causal(_GRPO, WIDE._replace(rows=8, tokens=512), ("MEM601",)),
    "reward": _made("AutoModelForSequenceClassification, Qwen2Config", _REWARD, _FEW_WORDS),
    "seq2seq": _made(
        "AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq, Seq2SeqTrainer, "
        "Seq2SeqTrainingArguments, T5Config",
        _SEQ2SEQ,
        _FEW_WORDS._replace(rows=8, tokens=512),
    ),
    "accelerate": _causal(_ACCELERATE, WIDE, ("MEM201", "MEM302", "MEM307")),
    "plain": _causal(_PLAIN, _FEW_WORDS),
    "trainer_with_eval": _causal(_TRAINER),
    "lora_sft": _causal(_LORA, _FEW_WORDS, ("MEM401", "MEM905")),
    "full_logits": _causal(_FULL_LOGITS),
}
