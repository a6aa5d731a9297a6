import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class Policy:
    def __init__(self, name, group_size=8):
        self.group_size = group_size
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6)

    @torch.no_grad()
    def sample(self, prompts):
        enc = self.tokenizer(prompts, return_tensors="pt", padding=True)
        return self.model.generate(**enc, do_sample=True, num_return_sequences=self.group_size)

    def train(self, loader):
        for batch in loader:
            rows = self.sample(batch["prompt"])
            logits = self.model(input_ids=rows, use_cache=False).logits[:, :-1]  # expect: MEM601
            logps = torch.log_softmax(logits, dim=-1)
            logps = logps.gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
            loss = -(logps.sum(-1) * advantages(rows)).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


Policy("Qwen/Qwen2.5-1.5B-Instruct").train(loader)
