# about: A base of less than a billion weights; one that streams already; one that is trained whole.
from memlint_runtime import stream_frozen_weights
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig())
stream_frozen_weights(model)
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset).train()
SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig("out"), train_dataset=dataset).train()
