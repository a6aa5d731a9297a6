import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling


class Pretrainer:
    def __init__(self, name, accumulate=2):
        self.accelerator = Accelerator(gradient_accumulation_steps=accumulate)
        tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModelForCausalLM.from_pretrained(name)
        data = load_dataset("roneneldan/TinyStories", split="train").map(
            lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
            batched=True,
            remove_columns=["text"],
        )
        loader = DataLoader(
            data, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
        )
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            self.model, optimizer, loader
        )

    def run(self, steps):
        self.model.train()
        step = 0
        while step < steps:
            for batch in self.loader:
                with self.accelerator.accumulate(self.model):
                    output = self.model(
                        input_ids=batch["input_ids"],
                        attention_mask=batch["attention_mask"],
                        labels=batch["labels"],
                        use_cache=False,
                    )
                    loss = output.loss
                    if torch.isnan(loss):
                        continue
                    self.accelerator.backward(loss)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                step += 1
                if step % 2 == 0:
                    yield step, loss.item()
                if step >= steps:
                    break


for step, loss in Pretrainer("Qwen/Qwen2.5-0.5B").run(8):
    print(step, loss)
