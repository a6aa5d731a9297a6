from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

quantized = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-0.6B", quantization_config=BitsAndBytesConfig(load_in_4bit=True)
)
Trainer(quantized, TrainingArguments("out", num_train_epochs=5), train_dataset=rows).train()
GRPOTrainer("Qwen/Qwen3-0.6B", args=GRPOConfig("out", num_train_epochs=5), train_dataset=rows).train()
