from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
trainer.train()
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map={"": "cpu"})
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")
