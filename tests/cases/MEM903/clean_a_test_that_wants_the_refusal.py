# about: A test that wants the refusal.
import pytest
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
with pytest.raises(ValueError):
    DPOTrainer(model, ref_model=model, args=DPOConfig("out"))
