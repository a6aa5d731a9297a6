import torch
from transformers import AutoModelForCausalLM


def of_tokens(policy, rows, mask):
    wide = policy(input_ids=rows, attention_mask=mask).logits[:, :-1, :].float()
    norm = wide.logsumexp(-1, keepdim=True)  # expect: MEM204
    chosen = torch.gather(wide, 2, rows[:, 1:, None])
    return (chosen - norm).squeeze(-1)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for batch in loader:
    loss = -of_tokens(model, batch["rows"], batch["mask"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
