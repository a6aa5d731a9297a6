# about: Functions by another name, whose calls must become others, and where that is uncertain.
from transformers import AdamW  # expect: MEM901
from transformers.optimization import AdamW as Adam  # expect: MEM901
from transformers.deepspeed import HfDeepSpeedConfig  # expect: MEM901
from trl import AutoModelForCausalLMWithValueHead, DataCollatorForCompletionOnlyLM  # expect: MEM901, MEM901
import transformers

__all__ = ["AdamW"]
optimizer = AdamW(model.parameters(), lr=1e-4, correct_bias=False)
other = Adam(*groups, **options)
third = transformers.AdamW(model.parameters())  # expect: MEM901
fourth = transformers.deepspeed.is_deepspeed_zero3_enabled()  # expect: MEM901
