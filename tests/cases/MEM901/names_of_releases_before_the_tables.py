import transformers
from transformers import WarmupLinearSchedule  # expect: MEM901

schedule = transformers.WarmupConstantSchedule(optimizer, warmup_steps=1)  # expect: MEM901
model = transformers.modeling_gpt2.GPT2LMHeadModel(config)  # expect: MEM901
schedule = WarmupLinearSchedule(optimizer, warmup_steps=1, t_total=9)
