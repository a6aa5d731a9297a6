# about: What the script pads, or cuts into blocks, is of one length, in pairs, too.
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import DPOConfig, DPOTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    made = {}
    for name in ("prompt", "chosen", "rejected"):
        ids = tokenizer(row[name], padding="max_length", truncation=True, max_length=256)
        made[f"{name}_input_ids"] = ids["input_ids"]
    return made


trainer = DPOTrainer(
    "Qwen/Qwen3-0.6B",
    args=DPOConfig("out", per_device_train_batch_size=4),
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train").map(encode),
    processing_class=tokenizer,
)
trainer.train()
