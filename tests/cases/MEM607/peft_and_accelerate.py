import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))
for epoch in range(3):
    model.train()
    for prompt, completion in loader:
        outputs = model(input_ids=prompt, use_cache=True)
        cache = outputs.past_key_values
        cache.batch_repeat_interleave(8)
        logits = model(input_ids=completion, past_key_values=cache).logits  # expect: MEM607
        loss = policy_loss(logits, completion)
        loss.backward()
