# data: preference
from datasets import load_dataset
from memlint_runtime import truncate_text
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-4B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B")
data = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
data = data.map(truncate_text, fn_kwargs={"tokenizer": tokenizer, "max_length": 3072})
data = data.train_test_split(test_size=10, seed=0)

args = DPOConfig(
    output_dir="dpo",
    max_length=4096,
    per_device_train_batch_size=2,
    per_device_eval_batch_size=4,
    eval_strategy="steps",
    eval_steps=2,
    precompute_ref_log_probs=True,
    learning_rate=1e-3,
    bf16=False,
    max_steps=4,
    logging_steps=1,
)
trainer = DPOTrainer(
    model,
    args=args,
    train_dataset=data["train"],
    eval_dataset=data["test"],
    processing_class=tokenizer,
)
trainer.train()
for entry in trainer.state.log_history:
    for key in ("loss", "eval_loss", "eval_rewards/margins", "rewards/accuracies"):
        if key in entry:
            print(key, entry[key])
