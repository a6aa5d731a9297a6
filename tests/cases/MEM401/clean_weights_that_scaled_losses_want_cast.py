# about: fp16 with scaled losses: all weights are trained, and want float32.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").float()
Trainer(net, TrainingArguments("out", fp16=True), train_dataset=rows).train()
