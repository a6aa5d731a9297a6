from liger_kernel.transformers import AutoLigerKernelForCausalLM, apply_liger_kernel_to_qwen3
from transformers import AutoModelForCausalLM

apply_liger_kernel_to_qwen3()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    logits = model(batch["input_ids"], labels=batch["labels"]).logits
