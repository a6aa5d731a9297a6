from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.config.output_hidden_states = False
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
