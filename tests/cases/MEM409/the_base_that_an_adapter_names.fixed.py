from peft import LoraConfig, PeftConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
from gc import collect

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
trainer.train()
named = PeftConfig.from_pretrained("out")
del trainer, model
collect()
base = AutoModelForCausalLM.from_pretrained(
    named.base_model_name_or_path, device_map={"": 0}
)
