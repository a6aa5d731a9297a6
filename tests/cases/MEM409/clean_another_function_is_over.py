# about: What a function made is freed when it returns.
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer


def train():
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
    trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
    trainer.train()


def merge():
    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
    PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")


train()
merge()
