# about: Merging adds the adapters, on the GPU, to weights that would be on the host: advice.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # expect: MEM412
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, SFTConfig("out"), train_dataset=dataset).train()
model.merge_and_unload().save_pretrained("merged")
