# about: It is made, and what it has is saved: no step ever runs.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig())
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
trainer.model.save_pretrained("out")
trainer.save_model("out")
