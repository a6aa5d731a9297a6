from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row, tokenizer):
    prompt, answer = tokenizer(row["question"])["input_ids"], tokenizer(row["answer"])["input_ids"]
    row["input_ids"] = prompt + answer
    row["completion_mask"] = [0] * len(prompt) + [1] * len(answer)
    row["labels"] = [-100] * len(prompt) + answer
    return row


rows = load_dataset("openai/gsm8k", "main", split="train")
rows = rows.map(lambda row: encode(row, tokenizer), remove_columns=["question", "answer"])
args = SFTConfig(
    "out",
    completion_only_loss=True,
    dataset_kwargs={"skip_prepare_dataset": True},
)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
