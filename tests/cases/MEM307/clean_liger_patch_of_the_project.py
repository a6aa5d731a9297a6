# about: Liger's patch, handed on by a module of the project.
from kernels import apply_liger_kernel_to_qwen3
from transformers import AutoModelForCausalLM

apply_liger_kernel_to_qwen3()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
