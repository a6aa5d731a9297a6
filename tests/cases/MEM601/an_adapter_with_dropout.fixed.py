from peft import LoraConfig
from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

trainer = GRPOTrainer(
    "Qwen/Qwen3-4B",
    reward_funcs=reward,
    args=GRPOConfig("out"),
    train_dataset=dataset,
    peft_config=LoraConfig(r=16, lora_dropout=0.0),
)
