# target: trl=0.24
from trl import SFTConfig, SFTTrainer

args = SFTConfig(  # expect: MEM207
    "out",
    per_device_train_batch_size=2,
    eval_strategy="steps",
)
trainer = SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=train, eval_dataset=test)
