# data: preference-conversation
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model_name = "Qwen/Qwen2.5-0.5B-Instruct"
model = AutoModelForCausalLM.from_pretrained(model_name)
tokenizer = AutoTokenizer.from_pretrained(model_name)
data = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
data = data.train_test_split(test_size=10, seed=0)

trainer = DPOTrainer(
    model=model,
    args=DPOConfig(
        "out",
        per_device_train_batch_size=3,
        per_device_eval_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        loss_type=["sigmoid", "sft"],
        loss_weights=[1.0, 0.5],
        learning_rate=1e-2,
        bf16=False,
        max_steps=4,
        logging_steps=1,
    ),
    processing_class=tokenizer,
    train_dataset=data["train"],
    eval_dataset=data["test"],
    peft_config=LoraConfig(r=8, target_modules="all-linear"),
)
trainer.train()
for entry in trainer.state.log_history:
    for key in ("loss", "eval_loss", "eval_rewards/margins", "rewards/chosen"):
        if key in entry:
            print(key, entry[key])
