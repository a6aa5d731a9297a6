# about: No edit leaves the comment false.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

STORED = torch.float32  # expect: MEM401
base = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-1B",
    torch_dtype=STORED,  # the adapters diverge over rounded weights
)
SFTTrainer(get_peft_model(base, LoraConfig()), args=SFTConfig("out"), train_dataset=rows).train()
