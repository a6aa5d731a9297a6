# environment: RANK=0
# environment: LOCAL_RANK=0
# environment: WORLD_SIZE=1
# environment: MASTER_ADDR=127.0.0.1
# environment: MASTER_PORT=0
# stand-in: gloo for NCCL
import os

import torch
import torch.distributed as dist
from datasets import load_dataset
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)

    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").to(local_rank)
    model = DDP(model, device_ids=[local_rank])

    dataset = load_dataset("roneneldan/TinyStories", split="train").map(
        lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
        batched=True,
        remove_columns=["text"],
    )
    sampler = DistributedSampler(dataset, seed=1)
    loader = DataLoader(
        dataset,
        batch_size=4,
        sampler=sampler,
        collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for epoch in range(1):
        sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            loss = model(**batch.to(local_rank)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 0:
                print(f"{epoch}/{step}: {loss.item():.7f}")
            if step == 4:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
