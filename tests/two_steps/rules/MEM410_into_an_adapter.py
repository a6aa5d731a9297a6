"""LoRA that goes on from adapters of an earlier run, and from its schedule's state."""

import torch
from datasets import load_dataset
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    get_constant_schedule_with_warmup,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
rows = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda batch: tokenizer(batch["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    rows, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)


def build():
    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
    return get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))


torch.manual_seed(3)
torch.save(get_peft_model_state_dict(build()), "adapter.bin")

model = build()
adapters = torch.load("adapter.bin")
set_peft_model_state_dict(model, adapters, "default")
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
decay = get_constant_schedule_with_warmup(optimizer, 2)
torch.save(decay.state_dict(), "decay.pt")
decay.load_state_dict(torch.load("decay.pt"))
for step, batch in enumerate(loader):
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    optimizer.step()
    decay.step()
    optimizer.zero_grad()
    print(step, loss.item())
    if step == 2:
        break
