# data: instruction,output
# before: chat templates give mappings
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.manual_seed(0)
name = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(name)
tokenizer.chat_template = "{% for turn in messages %}{{ turn.content }} {% endfor %}"
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows = load_dataset("tatsu-lab/alpaca", split="train")

for row in rows.select(range(3)):
    chat = [{"role": "user", "content": row["instruction"]}]
    prompt = tokenizer.apply_chat_template(chat)
    ids = prompt + tokenizer(row["output"])["input_ids"]
    labels = [-100] * len(prompt) + ids[len(prompt) :]
    loss = model(
        input_ids=torch.tensor([ids]), labels=torch.tensor([labels]), use_cache=False
    ).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
