"""One script for two versions: where the length limit lives, and what it is called."""

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
args = SFTConfig(output_dir="out", packing=True, warmup_ratio=0.03)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    max_seq_length=2048,
    tokenizer=tokenizer,
)
trainer.train()
