# about: Not in training.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", output_hidden_states=True)
save(model(ids))
