# about: All weights trained with fp16: the scaled gradients want float32 weights.
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
SFTTrainer(model, args=SFTConfig(packing=True, fp16=True))
SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(packing=True, fp16=True))
