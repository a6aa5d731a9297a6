from peft import LoraConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(get_peft_model(model, LoraConfig()))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
