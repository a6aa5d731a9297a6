# about: Cast for the hub, in another function.
import torch
from transformers import AutoModelForCausalLM


def publish(trained, narrow):
    if narrow:
        trained.to(torch.bfloat16)
    trained.push_to_hub("me/mine")


def learn(trained, loader):
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-5)
    for batch in loader:
        with torch.autocast("cuda", torch.bfloat16):
            loss = trained(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main(loader, narrow):
    policy = AutoModelForCausalLM.from_pretrained(
        "Qwen/Qwen3-1.7B",
        dtype=torch.float32,  # expect: MEM401
    )
    learn(policy, loader)
    publish(policy, narrow)


main(rows, narrow=True)
