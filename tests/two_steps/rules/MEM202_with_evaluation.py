# data: preference
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B-Instruct")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2-0.5B-Instruct")
data = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
data = data.train_test_split(test_size=10, seed=0)
orpo_args = ORPOConfig(
    output_dir="orpo-qwen",
    max_length=256,
    per_device_train_batch_size=2,
    per_device_eval_batch_size=4,
    eval_strategy="steps",
    eval_steps=2,
    learning_rate=1e-3,
    max_steps=4,
    logging_steps=1,
    bf16=False,
)
trainer = ORPOTrainer(
    model=model,
    args=orpo_args,
    processing_class=tokenizer,
    train_dataset=data["train"],
    eval_dataset=data["test"],
)
trainer.train()
for entry in trainer.state.log_history:
    for key in ("loss", "eval_loss", "eval_rewards/margins", "eval_logps/chosen", "log_odds_ratio"):
        if key in entry:
            print(key, entry[key])
