from trl import SFTTrainer

def quote(rows):
    text = f"Quote: {rows['quote'][0]}"
    return [text]

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=lambda row: quote({name: [value] for name, value in row.items()})[0])
