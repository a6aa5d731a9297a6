import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--optim", default="adamw_bnb_8bit")
flags = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype="float32")
args = TrainingArguments("out", optim=flags.optim, bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
