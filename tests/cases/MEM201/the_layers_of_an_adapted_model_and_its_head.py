from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(base, LoraConfig(r=8)).cuda()
optimizer = AdamW(model.parameters())
model.train()
for batch in loader:
    inner = model.base_model.model
    states = inner.model(input_ids=batch["input_ids"]).last_hidden_state
    logits = inner.lm_head(states)[:, :-1]
    loss = cross_entropy(logits.transpose(1, 2), batch["labels"][:, 1:])  # expect: MEM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
