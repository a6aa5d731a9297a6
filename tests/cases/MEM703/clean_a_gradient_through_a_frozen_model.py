# about: The gradient of the generator passes through the frozen model's inputs.
import torch
from transformers import AutoModel, AutoModelForCausalLM

generator = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
judge = AutoModel.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(generator.parameters())
for ids in loader:
    soft = generator(ids, use_cache=False).logits.softmax(-1) @ table
    loss = judge(inputs_embeds=soft).last_hidden_state.mean()
    loss.backward()
    optimizer.step()
