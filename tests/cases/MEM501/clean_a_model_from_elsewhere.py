# about: What an unknown function makes may be quantized, sharded, or have an adapter.
from transformers import Trainer, TrainingArguments

model = load_model("Qwen/Qwen3-8B", "float32")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=dataset).train()
