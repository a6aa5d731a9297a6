from accelerate import Accelerator
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    get_scheduler,
    set_seed,
)


def main():
    set_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
    dataset = load_dataset("roneneldan/TinyStories", split="train").map(
        lambda rows: tokenizer(rows["text"], truncation=True, max_length=128),
        batched=True,
        remove_columns=["text"],
    )
    loader = DataLoader(
        dataset,
        batch_size=4,
        shuffle=True,
        collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    optimizer = AdamW(model.parameters(), lr=1e-3)
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=1, num_training_steps=8)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    model.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.print(f"step {step} loss {loss.item():.7f}")


if __name__ == "__main__":
    main()
