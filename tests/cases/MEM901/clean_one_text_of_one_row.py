# about: One text of one row.
from trl import SFTTrainer

def text(row):
    parts = [row["question"], row["answer"]]
    for part in row["more"]:
        parts.append(part)
    return " ".join(parts)

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=text)
