from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer


def clear_memory():
    if "model" in globals():
        del globals()["model"]
    if "trainer" in globals():
        del globals()["trainer"]


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
trainer.train()
clear_memory()
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")
