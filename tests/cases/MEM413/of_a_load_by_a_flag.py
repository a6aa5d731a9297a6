# target: transformers=4.36,trl=0.7
from types import SimpleNamespace

from peft import LoraConfig
from transformers import AutoModelForCausalLM, TrainingArguments
from trl import SFTTrainer

config = SimpleNamespace(model="mistralai/Mistral-7B-v0.1", load_in_4bit=True, load_in_8bit=False)


def main(config):
    model = AutoModelForCausalLM.from_pretrained(  # expect: MEM413
        config.model, load_in_4bit=config.load_in_4bit, load_in_8bit=config.load_in_8bit
    )
    args = TrainingArguments("out", bf16=True)
    SFTTrainer(model, args, train_dataset=rows, peft_config=LoraConfig(r=8)).train()


main(config)
