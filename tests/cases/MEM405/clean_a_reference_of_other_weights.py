# about: It stands on the GPU by `ref_model`, and the policy cannot take its place.
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("my/tuned")
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
DPOTrainer(model, ref_model=other, args=DPOConfig("out"), train_dataset=dataset).train()
