# about: OSF replaces each weight by its singular vectors, and trains some of them: no frozen base is left.
from peft import OSFConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, OSFConfig(target_modules=["q_proj", "v_proj"]))
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
