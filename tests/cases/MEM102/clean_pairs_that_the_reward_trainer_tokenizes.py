# about: The trainer tokenizes the texts of pairs by itself, whatever else the rows have.
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
scorer = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=1)


def measure(row):
    ids = tokenizer(row["chosen"], truncation=True, max_length=640, padding="max_length")
    return {"words": sum(ids["attention_mask"])}


pairs = load_dataset("some/pairs", split="train").map(measure)
RewardTrainer(scorer, args=RewardConfig("out"), processing_class=tokenizer, train_dataset=pairs).train()
