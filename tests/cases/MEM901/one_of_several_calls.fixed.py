import sys

from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig, TrainingArguments
from trl import DPOConfig, SFTConfig

load = AutoModelForCausalLM if sys.argv[1] == "causal" else AutoModelForSeq2SeqLM
model = load.from_pretrained("m", token=True, quantization_config=BitsAndBytesConfig(load_in_8bit=True))
config = SFTConfig if sys.argv[2] else DPOConfig
args = config("out", eval_strategy="steps", max_seq_length=512, max_prompt_length=12)
