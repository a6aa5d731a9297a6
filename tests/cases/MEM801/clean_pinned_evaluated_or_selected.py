import argparse

from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--pin", action="store_true")
flags = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
loader = DataLoader(rows, batch_size=8, pin_memory=True)
other = DataLoader(rows, batch_size=8, pin_memory=flags.pin)
for batch in loader:
    model(**batch).loss.backward()
for batch in other:
    model(**batch).loss.backward()
model.eval()
for batch in DataLoader(test_rows, batch_size=8):
    print(model(**batch).loss)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
