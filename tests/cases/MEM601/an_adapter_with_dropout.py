from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer(  # expect: MEM601
    "Qwen/Qwen3-4B",
    reward_funcs=reward,
    args=GRPOConfig("out"),
    train_dataset=dataset,
    peft_config=LoraConfig(r=16, lora_dropout=0.05),
)
