# about: A run either trains or merges.
import argparse
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--merge", action="store_true")
if not parser.parse_args().merge:
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
    trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
    trainer.train()
else:
    base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
    PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")
