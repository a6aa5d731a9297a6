# about: Pairs that are tokenized under the trainer's own names reach it.
# target: trl=0.11,transformers=4.43
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
scorer = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=1)


def encode(row):
    better = tokenizer(row["better"], truncation=True, max_length=640, padding="max_length")  # expect: MEM102
    worse = tokenizer(row["worse"], truncation=True, max_length=640, padding="max_length")  # expect: MEM102
    return {
        "input_ids_chosen": better["input_ids"],
        "attention_mask_chosen": better["attention_mask"],
        "input_ids_rejected": worse["input_ids"],
        "attention_mask_rejected": worse["attention_mask"],
    }


pairs = load_dataset("some/pairs", split="train").map(encode)
RewardTrainer(scorer, args=RewardConfig("out"), processing_class=tokenizer, train_dataset=pairs).train()
