# about: The compiler recomputes as much as the budget asks for.
import torch._functorch.config as partitioner
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
setattr(partitioner, "activation_memory_budget", 0.5)
Trainer(model, TrainingArguments("out", torch_compile=True), train_dataset=rows).train()
