# about: In 512 tokens nothing hides a base of 16 bits on its way over the bus: steps take 4 to 13 times as long.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig())
args = SFTConfig("out", per_device_train_batch_size=1, max_length=512)
SFTTrainer(model, args=args, train_dataset=dataset).train()
