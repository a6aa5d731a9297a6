# data: messages
# fix: unsafe
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer


def main():
    dataset = load_dataset("HuggingFaceH4/no_robots", split="train")
    peft_config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    training_args = SFTConfig(
        output_dir="qwen-sft",
        max_length=256,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=1,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
        bf16=False,
    )
    trainer = SFTTrainer(
        model="Qwen/Qwen3-0.6B",
        args=training_args,
        train_dataset=dataset,
        peft_config=peft_config,
    )
    trainer.train()
    print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])


if __name__ == "__main__":
    main()
