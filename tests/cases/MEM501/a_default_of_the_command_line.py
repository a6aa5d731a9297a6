# about: The default of a command line is changed where it is written.
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--optim", default="adamw_torch")  # expect: MEM501
flags = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype="float32")
args = TrainingArguments("out", optim=flags.optim, bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
