# about: PEFT throws the positions away that keep packed documents apart.
from peft import PromptTuningConfig, get_peft_model
from trl import SFTConfig, SFTTrainer

model = get_peft_model(base, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=16))
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
