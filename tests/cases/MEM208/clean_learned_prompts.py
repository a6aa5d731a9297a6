# about: PEFT makes the labels of learned tokens, and for CPT wants them.
from peft import CPTConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, CPTConfig(task_type="CAUSAL_LM"))
for ids in loader:
    print(model(input_ids=ids, labels=ids).logits[:, -1])
