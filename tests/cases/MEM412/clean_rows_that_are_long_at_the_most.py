# about: Four rows of at most 4,096 tokens: nearly all are far shorter, and nothing fills them up.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig())
args = SFTConfig("out", per_device_train_batch_size=4, max_length=4096)
SFTTrainer(model, args=args, train_dataset=dataset).train()
