# data: prompt-conversation
import trl
from datasets import load_dataset
from peft import LoraConfig

dataset = load_dataset("trl-lib/ultrafeedback-prompt", split="train")


def reward(completions, **kwargs):
    return [len(set(completion[0]["content"])) / 10 for completion in completions]


trainer = trl.RLOOTrainer(
    "Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=reward,
    args=trl.RLOOConfig(
        "rloo",
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=8,
        learning_rate=1e-2,
        bf16=False,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=dataset,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
