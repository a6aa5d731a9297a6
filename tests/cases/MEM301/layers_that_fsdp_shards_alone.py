# about: Sharding alone keeps the activations of all layers.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments(  # expect: MEM301
    "out",
    fsdp="full_shard",
    fsdp_config={"activation_checkpointing": False},
)
Trainer(model, args, train_dataset=rows).train()
