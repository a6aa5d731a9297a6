from transformers import AutoModelForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs: CausalLMOutputWithPast = model(**batch)
    outputs.loss.backward()
    del outputs
