# about: as an attribute, by a replaced copy, by an update of the attributes
import dataclasses

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

adapter = LoraConfig(r=16)
adapter.modules_to_save = ["embed_tokens"]  # expect: MEM411
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), adapter)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
