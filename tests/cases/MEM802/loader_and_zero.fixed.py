from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
for batch in DataLoader(rows, batch_size=8, num_workers=2):
    model(**batch).loss.backward()
    optimizer.step()
