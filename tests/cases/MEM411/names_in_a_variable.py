from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

saved = ["lm_head", "embed_tokens"]  # expect: MEM411
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig(r=8, modules_to_save=saved))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
