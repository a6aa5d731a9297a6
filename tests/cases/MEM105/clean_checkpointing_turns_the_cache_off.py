from transformers import AutoModelForCausalLM, DataCollatorWithFlattening

collate = DataCollatorWithFlattening()
model = AutoModelForCausalLM.from_pretrained("q")
model.activation_checkpointing_enable()
for batch in loader:
    model(**batch).loss.backward()
