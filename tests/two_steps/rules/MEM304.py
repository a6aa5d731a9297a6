# data: messages
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, attn_implementation="eager", dtype="float32")
dataset = load_dataset("HuggingFaceH4/no_robots", split="train")

trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=dataset,
    args=SFTConfig(
        "out",
        max_length=128,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        bf16=False,
        max_steps=3,
        logging_steps=1,
    ),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
