# about: The same checkpoint, loaded twice.
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

DPOTrainer(  # expect: MEM405
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"),
    ref_model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"),
    args=DPOConfig("out"),
    train_dataset=dataset,
).train()
