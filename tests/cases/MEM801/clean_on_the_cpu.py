from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="cpu")
for batch in DataLoader(rows, batch_size=8):
    model(**batch).loss.backward()
