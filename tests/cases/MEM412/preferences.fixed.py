from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer
from memlint_runtime import stream_frozen_weights


def main(rows):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
    model.config.use_cache = False
    stream_frozen_weights(model.requires_grad_(False))
    trainer = DPOTrainer(
        model=model,
        args=DPOConfig("out"),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
        train_dataset=rows,
    )
    trainer.train()
