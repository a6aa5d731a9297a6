from itertools import chain

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def main():
    model = AutoModelForCausalLM.from_pretrained("gpt2")

    def cut_rows(batch, size=512):  # expect: MEM105 hint
        line = {name: list(chain(*batch[name])) for name in batch}
        return {name: [row[at : at + size] for at in range(0, len(row), size)] for name, row in line.items()}

    blocks = data.map(cut_rows, batched=True)
    Trainer(model, TrainingArguments("out"), train_dataset=blocks).train()


main()
