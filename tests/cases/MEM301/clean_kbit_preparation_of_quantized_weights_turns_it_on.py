# about: k-bit preparation of quantized weights turns it on.
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

four_bit = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config=four_bit)
model = prepare_model_for_kbit_training(model)
Trainer(model, TrainingArguments("out")).train()
