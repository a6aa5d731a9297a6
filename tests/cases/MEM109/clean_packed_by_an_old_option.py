from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
rows = load_dataset("org/rows", split="train")
args = TrainingArguments("out", bf16=True)
SFTTrainer(model, args=args, train_dataset=rows, packing=True, processing_class=tokenizer).train()
