# about: A reference only where there is no adapter.
import copy, sys
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

use_peft = len(sys.argv) > 1
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
trainer = DPOTrainer(
    model,
    ref_model=None if use_peft else copy.deepcopy(model),
    args=DPOConfig("out"),
    peft_config=LoraConfig() if use_peft else None,
)
