from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
options = {"batch_size": 8, "collate_fn": DataCollatorForSeq2Seq(tokenizer)}
loader = DataLoader(rows, pin_memory=True, **options)
for batch in loader:
    model(**batch.to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
