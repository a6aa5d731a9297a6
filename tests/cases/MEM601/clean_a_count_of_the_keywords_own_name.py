# about: A parameter that is called as the keyword is says nothing of more than one completion.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)


def train(loader, num_return_sequences):
    for batch in loader:
        enc = tokenizer(batch["prompt"], return_tensors="pt", padding=True)
        with torch.no_grad():
            rows = model.generate(
                **enc, do_sample=True, max_new_tokens=256, num_return_sequences=num_return_sequences
            )
        logits = model(input_ids=rows, use_cache=False).logits[:, :-1]
        logps = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
        loss = -(logps.sum(-1) * advantages(rows)).mean()
        loss.backward()


train(rows_of("train"), settings().num_return_sequences)
