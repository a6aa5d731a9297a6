from transformers import Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()

config = SFTConfig("out", fp16=True)
SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=rows).train()

stays = TrainingArguments("out", fp16=True)
stays.fp16 = False
Trainer(model=model, args=stays, train_dataset=rows).train()

products = TrainingArguments("out", bf16=True, tf32=True)
Trainer(model=model, args=products, train_dataset=rows).train()
