# about: Whichever way the adapter comes about, its base is the reference.
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM


def tune(loader, saved=None):
    policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
    before = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)  # expect: MEM405
    if saved:
        policy = PeftModel.from_pretrained(policy, saved, is_trainable=True)
    else:
        policy = get_peft_model(policy, LoraConfig(target_modules="all-linear"))
    optimizer = torch.optim.AdamW([one for one in policy.parameters() if one.requires_grad])
    for batch in loader:
        with torch.no_grad():
            target = before(**batch).logits.softmax(-1)
        told = policy(**batch).logits.log_softmax(-1)
        torch.nn.functional.kl_div(told, target).backward()
        optimizer.step()
        optimizer.zero_grad()
