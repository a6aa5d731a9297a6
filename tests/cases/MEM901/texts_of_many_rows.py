from trl import SFTTrainer

def texts(rows):
    made = []
    for i in range(len(rows["question"])):
        made.append(f"{rows['question'][i]} {rows['answer'][i]}")
    return made

trainer = SFTTrainer(model, train_dataset=dataset, formatting_func=texts)  # expect: MEM901
