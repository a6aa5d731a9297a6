# about: parts of a model take no `use_cache`.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
embed = model.get_input_embeddings()
for batch in loader:
    vectors = embed(batch["input_ids"])
    head = model.get_output_embeddings()
    logits = head(model.model.norm(vectors))
    loss = criterion(logits, batch["labels"])
    loss.backward()
    optimizer.step()
