# about: A call of one of several classes: what none of them takes.
import sys

from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, TrainingArguments
from trl import DPOConfig, SFTConfig

load = AutoModelForCausalLM if sys.argv[1] == "causal" else AutoModelForSeq2SeqLM
model = load.from_pretrained("m", use_auth_token=True, load_in_8bit=True)  # expect: MEM901, MEM901
config = SFTConfig if sys.argv[2] else DPOConfig
args = config("out", evaluation_strategy="steps", max_seq_length=512, max_prompt_length=12)  # expect: MEM901, MEM901, MEM901
