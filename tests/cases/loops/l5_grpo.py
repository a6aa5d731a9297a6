# about: GRPO by hand, as in TRL's pull request 2669.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

name = "Qwen/Qwen2.5-1.5B-Instruct"
tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
model = AutoModelForCausalLM.from_pretrained(  # planted: MEM301
    name, torch_dtype=torch.bfloat16
).cuda()
ref_model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
num_generations = 8


def get_per_token_logps(model, input_ids, attention_mask, logits_to_keep):
    logits = model(
        input_ids=input_ids, attention_mask=attention_mask
    ).logits
    logits = logits[:, :-1, :]
    input_ids = input_ids[:, -logits_to_keep:]
    logits = logits[:, -logits_to_keep:]
    per_token_logps = []
    for logits_row, input_ids_row in zip(logits, input_ids):
        log_probs = logits_row.log_softmax(dim=-1)  # planted: MEM204
        token_log_prob = torch.gather(log_probs, dim=1, index=input_ids_row.unsqueeze(1)).squeeze(1)
        per_token_logps.append(token_log_prob)
    return torch.stack(per_token_logps)


kept = []
for batch in loader:
    inputs = tokenizer(batch["prompt"], return_tensors="pt", padding=True).to("cuda")
    prompt_ids = inputs["input_ids"].repeat_interleave(num_generations, dim=0)
    prompt_mask = inputs["attention_mask"].repeat_interleave(num_generations, dim=0)
    with torch.no_grad():
        rows = model.generate(
            input_ids=prompt_ids, attention_mask=prompt_mask, do_sample=True, max_new_tokens=256
        )
    keep = rows.shape[1] - prompt_ids.shape[1]
    mask = (rows != tokenizer.pad_token_id).long()
    logps = get_per_token_logps(model, rows, mask, keep)  # planted: MEM601
    ref_logps = get_per_token_logps(ref_model, rows, mask, keep)  # planted: MEM703
    kl = torch.exp(ref_logps - logps) - (ref_logps - logps) - 1
    loss = -(torch.exp(logps - logps.detach()) * advantages(rows) - 0.04 * kl).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(kl.mean())  # planted: MEM702
