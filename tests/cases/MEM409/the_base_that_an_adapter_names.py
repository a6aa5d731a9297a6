from peft import LoraConfig, PeftConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
trainer.train()
named = PeftConfig.from_pretrained("out")
base = AutoModelForCausalLM.from_pretrained(  # expect: MEM409
    named.base_model_name_or_path, device_map={"": 0}
)
