from trl import SFTTrainer

def quote(rows):
    text = f"Quote: {rows['quote'][0]}"
    return [text]

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=quote)  # expect: MEM901
