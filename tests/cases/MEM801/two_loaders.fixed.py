from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
plain = DataLoader(texts, batch_size=8, pin_memory=True)
for batch in plain:
    policy(**batch).loss.backward()
    optimizer.step()
mixed = DataLoader(answers, batch_size=4, pin_memory=True)
for batch in mixed:
    policy(**batch).loss.backward()
    optimizer.step()
