# data: preference
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

args = DPOConfig(
    "out",
    model_init_kwargs={"attn_implementation": "eager", "dtype": "float32"},
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = DPOTrainer(
    "Qwen/Qwen2.5-0.5B-Instruct",
    args=args,
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
