# about: No cache; flash attention; checkpointing, which turns the cache off.
from transformers import AutoModelForCausalLM, DataCollatorWithFlattening

collate = DataCollatorWithFlattening()
model = AutoModelForCausalLM.from_pretrained("q", attn_implementation="flash_attention_2")
for batch in loader:
    model(**batch).loss.backward()
model = AutoModelForCausalLM.from_pretrained("q")
for batch in loader:
    model(**batch, use_cache=False).loss.backward()
