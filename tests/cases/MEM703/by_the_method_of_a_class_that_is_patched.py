# about: What the class is derived from is not known; the script puts it in evaluation mode.
import transformers
from patches import Patched

model = transformers.AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in train_loader:
    model(**batch).loss.backward()


class Exported(Patched):
    pass


patched = Exported.from_pretrained("Qwen/Qwen3-0.6B").eval()
for batch in loader:
    print(patched.forward(**batch))  # expect: MEM703
