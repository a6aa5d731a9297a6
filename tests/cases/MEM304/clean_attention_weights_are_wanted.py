# about: Attention weights are wanted.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", attn_implementation="eager")
for batch in loader:
    outputs = model(**batch, output_attentions=True)
    (outputs.loss + entropy(outputs.attentions)).backward()
