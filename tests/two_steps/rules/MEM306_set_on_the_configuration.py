from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
model.config.output_hidden_states = True
model.config.use_cache = False
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)
optimizer = AdamW(model.parameters(), lr=1e-3)
model.train()
for step, batch in enumerate(loader):
    outputs = model(**batch)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, outputs.loss.item())
    if step == 3:
        break
