# about: Compiled to generate with after training.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments


def run(rows, question):
    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    policy = get_peft_model(base, LoraConfig())

    def prepare(row):
        made = words(
            row["text"],
            truncation=True,
            max_length=1024,
            padding="max_length",  # expect: MEM102
            return_tensors="pt",
        )
        return {**made, "labels": made["input_ids"]}

    coach = Trainer(model=policy, args=TrainingArguments("out"), train_dataset=rows.map(prepare))
    coach.train()
    fast = torch.compile(policy)
    return fast(**words(question, return_tensors="pt"))
