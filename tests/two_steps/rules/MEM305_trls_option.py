# data: messages
# stand-in: nothing is offloaded, which takes an accelerator
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="long-context",
    max_length=32768,
    packing=True,
    per_device_train_batch_size=1,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    "meta-llama/Llama-3.1-8B",
    args=args,
    train_dataset=load_dataset("THUDM/LongAlign-10k", split="train"),
    peft_config=LoraConfig(task_type="CAUSAL_LM"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
