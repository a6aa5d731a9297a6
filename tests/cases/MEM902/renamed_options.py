import torch
from transformers import AutoModelForCausalLM, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-8B",
    torch_dtype=torch.bfloat16,  # expect: MEM902
)
args = TrainingArguments("out", gradient_checkpointing=True)  # expect: MEM902
