# data: instruction,output
import torch
from datasets import load_dataset
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator

device = "cuda"
model_name = "meta-llama/Llama-3.2-3B"
tokenizer = AutoTokenizer.from_pretrained(model_name)
model = AutoModelForCausalLM.from_pretrained(model_name)
peft_config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=32, lora_dropout=0.1)
model = get_peft_model(model, peft_config)
model = model.to(device)


def preprocess(rows):
    texts = [f"{a}\n{b}" for a, b in zip(rows["instruction"], rows["output"])]
    encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=64)
    encoded["labels"] = [
        [token if kept else -100 for token, kept in zip(ids, mask)]
        for ids, mask in zip(encoded["input_ids"], encoded["attention_mask"])
    ]
    return encoded


dataset = load_dataset("tatsu-lab/alpaca", split="train")
dataset = dataset.map(preprocess, batched=True, remove_columns=dataset.column_names)
loader = DataLoader(dataset, batch_size=4, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(1):
    model.train()
    total_loss = 0
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        outputs = model(**batch, use_cache=False)
        loss = outputs.loss
        total_loss += loss.detach().float()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3:
            break
    print(f"{epoch=}: {total_loss.item() / 4:.7f}")
