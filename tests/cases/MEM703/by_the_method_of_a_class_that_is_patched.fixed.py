import transformers
import torch
from patches import Patched

model = transformers.AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in train_loader:
    model(**batch).loss.backward()


class Exported(Patched):
    pass


patched = Exported.from_pretrained("Qwen/Qwen3-0.6B").eval()
with torch.no_grad():
    for batch in loader:
        print(patched.forward(**batch))
