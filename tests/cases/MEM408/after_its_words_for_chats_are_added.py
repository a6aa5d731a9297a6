# target: transformers=4.57
# target: trl=0.19
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    Trainer,
    TrainingArguments,
)
from trl import setup_chat_format

bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
words = AutoTokenizer.from_pretrained("meta-llama/Llama-3.1-8B")
net = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", quantization_config=bits)
net, words = setup_chat_format(net, words)
net = prepare_model_for_kbit_training(net)  # expect: MEM408
net = get_peft_model(net, LoraConfig())
Trainer(net, TrainingArguments("out", bf16=True), train_dataset=rows).train()
