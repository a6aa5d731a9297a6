# about: A comprehension takes the options over, but for those that are no option.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

options = {
    "adapter": None,
    "learning_rate": 2e-4,
    "per_device_train_batch_size": 4,
    "gradient_checkpointing": False,  # expect: MEM301
}
kept = {name: value for name, value in options.items() if name != "adapter"}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out", bf16=True, **kept), train_dataset=rows).train()
