import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from memlint_runtime import fuse_causal_lm_loss

accelerator = Accelerator(mixed_precision="bf16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer.add_special_tokens({"pad_token": "<nothing>"})
network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
network.resize_token_embeddings(len(tokenizer))
network = get_peft_model(network, LoraConfig(task_type="CAUSAL_LM"))
fuse_causal_lm_loss(network, fuse_evaluation=True)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
network.train()
for batch in loader:
    loss = network(**batch, use_cache=False).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
