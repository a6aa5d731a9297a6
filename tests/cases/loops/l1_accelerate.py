# about: A fine-tune of all weights with accelerate.
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    accelerator = Accelerator(gradient_accumulation_steps=4)
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
    model = AutoModelForCausalLM.from_pretrained(  # planted: MEM402, MEM301
        "Qwen/Qwen2.5-7B", torch_dtype=torch.float32  # planted: MEM401
    )

    def encode(rows):
        return tokenizer(
            rows["text"], truncation=True, max_length=2048, padding="max_length"  # planted: MEM102
        )

    train = load_rows("train").map(encode, batched=True, remove_columns=["text"])
    test = load_rows("test").map(encode, batched=True, remove_columns=["text"])
    train.set_format("torch")
    test.set_format("torch")
    train_loader = DataLoader(train, batch_size=8, shuffle=True)
    eval_loader = DataLoader(test, batch_size=32)  # planted: MEM207
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)  # planted: MEM501
    model, optimizer, train_loader, eval_loader = accelerator.prepare(
        model, optimizer, train_loader, eval_loader
    )
    for epoch in range(3):
        model.train()
        total = 0
        for batch in train_loader:
            with accelerator.accumulate(model):
                outputs = model(  # planted: MEM201, MEM302, MEM307
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    labels=batch["input_ids"],
                )
                loss = outputs.loss
                total += loss  # planted: MEM701
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)  # planted: MEM503
            torch.cuda.empty_cache()  # planted: MEM705
        model.eval()
        for batch in eval_loader:
            outputs = model(  # planted: MEM703
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                labels=batch["input_ids"],
            )
            print(epoch, total, outputs.loss.item())


if __name__ == "__main__":
    main()
