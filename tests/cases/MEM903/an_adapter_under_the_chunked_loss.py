# target: trl=1.9, transformers=5.20
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

adapter = LoraConfig(target_modules=["q_proj", "lm_head"])  # expect: MEM903
SFTTrainer("q", args=SFTConfig("out"), train_dataset=rows, peft_config=adapter)
other = LoraConfig(target_modules=["v_proj", "lm_head"])
SFTTrainer("q", args=SFTConfig("o", loss_type="nll"), train_dataset=rows, peft_config=other)
