from peft import LoraConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DDP(get_peft_model(model, LoraConfig()))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
