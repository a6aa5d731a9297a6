# about: Nothing casts embeddings and head back after the preparation.
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", quantization_config=bits)
model = prepare_model_for_kbit_training(model)  # expect: MEM408
model = get_peft_model(model, LoraConfig())
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=dataset).train()
