# about: Merging into 4-bit weights is lossy: advice.
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")  # expect: MEM407
trainer = SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset)
trainer.train()
trainer.model.merge_and_unload().save_pretrained("merged")
