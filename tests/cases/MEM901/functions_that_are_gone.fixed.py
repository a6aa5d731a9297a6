from transformers import AdamW
from transformers.optimization import AdamW as Adam
import transformers

__all__ = ["AdamW"]
optimizer = AdamW(model.parameters(), lr=1e-4, correct_bias=False)
other = Adam(*groups, **options)
third = transformers.AdamW(model.parameters())
fourth = transformers.integrations.deepspeed.is_deepspeed_zero3_enabled()
