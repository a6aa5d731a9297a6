# about: Beside an adapter.
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
reference = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
trainer = DPOTrainer(
    model=model,
    ref_model=reference,  # expect: MEM405
    args=DPOConfig("out"),
    train_dataset=dataset,
    peft_config=LoraConfig(),
)
