# about: Half precision is off because of the machine, which a comment names.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

args = TrainingArguments(
    "out",
    fp16=False,  # Disable for CPU
)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="float32")
Trainer(model, args, train_dataset=rows).train()
