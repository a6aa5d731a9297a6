from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
trainer = DPOTrainer(
    model=model,
    ref_model=None,
    args=DPOConfig("out"),
    train_dataset=dataset,
    peft_config=LoraConfig(),
)
