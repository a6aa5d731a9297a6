# about: Weights that another library quantizes may be trainable.
from transformers import AutoModelForCausalLM, GPTQConfig, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m", quantization_config=GPTQConfig(bits=4))
Trainer(model, TrainingArguments("a"), train_dataset=rows)
