# about: Each loader that training reads is a fault of its own.
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
plain = DataLoader(texts, batch_size=8)  # expect: MEM801
for batch in plain:
    policy(**batch).loss.backward()
    optimizer.step()
mixed = DataLoader(answers, batch_size=4)  # expect: MEM801
for batch in mixed:
    policy(**batch).loss.backward()
    optimizer.step()
