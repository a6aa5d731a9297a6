# about: FSDP checkpoints the layers that it shards by an option of the trainer's; the trainer's own
# about: option checkpoints them once more, which it refuses.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
again = {"activation_checkpointing": True}
both = TrainingArguments("a", fsdp="full_shard auto_wrap", fsdp_config=again, activation_checkpointing=True)  # expect: MEM903
Trainer(base, both, train_dataset=rows)
by_default = SFTConfig("b", fsdp=True, fsdp_config=dict(fsdp_activation_checkpointing=True))  # expect: MEM903
SFTTrainer("Qwen/Qwen3-8B", args=by_default, train_dataset=rows)
once = TrainingArguments("c", fsdp=["full_shard"], fsdp_config=again)
Trainer(base, once, train_dataset=rows)
not_sharded = TrainingArguments("d", fsdp="", fsdp_config=again, activation_checkpointing=True)
Trainer(base, not_sharded, train_dataset=rows)
by_trainer = TrainingArguments(
    "e", fsdp="full_shard", fsdp_config={"activation_checkpointing": False}, activation_checkpointing=True
)
Trainer(base, by_trainer, train_dataset=rows)
