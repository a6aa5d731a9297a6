from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", output_attentions=True)  # expect: MEM306
model.config.output_hidden_states = True  # expect: MEM306 hint
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
