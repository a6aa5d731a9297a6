from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
args = TrainingArguments("out", bf16=True)
args.bf16 = False
Trainer(model=model, args=args, train_dataset=rows).train()
config = SFTConfig("out")
config.bf16 = False
SFTTrainer(model, args=config, train_dataset=rows).train()
plain = TrainingArguments("out")
plain.bf16 = True
SFTTrainer(model, args=plain, train_dataset=rows).train()
