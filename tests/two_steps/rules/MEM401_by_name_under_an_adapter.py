# data: messages
# tolerance: 0.02 the frozen base is in bf16 afterwards
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

loading = {"attn_implementation": "sdpa"}
args = SFTConfig(
    output_dir="qwen",
    model_init_kwargs=loading,
    max_length=128,
    per_device_train_batch_size=2,
    learning_rate=1e-2,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-8B",
    args=args,
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
    peft_config=LoraConfig(r=16, target_modules="all-linear"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
