# about: The base without its adapter is the reference, and the trainer makes the adapter.
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer


def main(rows):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # expect: MEM412
    model.config.use_cache = False
    trainer = DPOTrainer(
        model=model,
        args=DPOConfig("out"),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
        train_dataset=rows,
    )
    trainer.train()
