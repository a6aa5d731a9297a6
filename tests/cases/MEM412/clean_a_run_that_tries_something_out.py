# about: 20 steps, or four rows: nobody waits for memory there, and all would wait for the bus.
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out", max_steps=20), train_dataset=dataset).train()

rows = Dataset.from_list([{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"}])
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-14B")
other = get_peft_model(other, LoraConfig())
SFTTrainer(other, args=SFTConfig("out"), train_dataset=rows).train()
