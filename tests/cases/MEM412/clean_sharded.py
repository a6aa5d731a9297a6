# about: FSDP places the weights by itself.
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = SFTConfig("out", fsdp="full_shard auto_wrap")
SFTTrainer(model, args=args, peft_config=LoraConfig(), train_dataset=dataset).train()
