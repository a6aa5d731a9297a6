"""Nothing to report: TRL's defaults of today, packing over flash attention, and an adapter on a bfloat16 base."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-8B", dtype="bfloat16", attn_implementation="flash_attention_2"
)
trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir="out", max_length=4096, packing=True),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(),
)
trainer.train()
