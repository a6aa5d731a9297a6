# about: The attention comes from elsewhere.
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("q", attn_implementation=flags.attention)
trainer = SFTTrainer(model, args=SFTConfig("out", packing=True), train_dataset=dataset)
