import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from peft import get_peft_model, prepare_model_for_kbit_training

bits = BitsAndBytesConfig(
    load_in_4bit=True,
    bnb_4bit_quant_type="nf4",
    bnb_4bit_compute_dtype=torch.float16,
)
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", quantization_config=bits)
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig())
Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=dataset).train()
