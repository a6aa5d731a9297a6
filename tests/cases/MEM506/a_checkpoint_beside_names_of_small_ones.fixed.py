from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

resnet_folder, lora_folder = "resnet", "lora"
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DDP(model, device_ids=[0], gradient_as_bucket_view=True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
save(model, resnet_folder, lora_folder)
