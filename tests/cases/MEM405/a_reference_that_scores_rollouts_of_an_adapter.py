# about: The reference is asked once a round, the policy in every epoch of it.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

name = "Qwen/Qwen2.5-1.5B-Instruct"
tokenizer = AutoTokenizer.from_pretrained(name)
policy = get_peft_model(AutoModelForCausalLM.from_pretrained(name).cuda(), LoraConfig(r=8))
anchor = AutoModelForCausalLM.from_pretrained(name).cuda()  # expect: MEM405
for weight in anchor.parameters():
    weight.requires_grad_(False)
optimizer = torch.optim.Adam([one for one in policy.parameters() if one.requires_grad], lr=1e-6)


def scores(model, ids):
    logits = model(input_ids=ids).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def play(question):
    given = tokenizer(question, return_tensors="pt").to("cuda")
    with torch.no_grad():
        rows = policy.generate(**given, do_sample=True, max_new_tokens=64)
        return rows, scores(anchor, rows)


def learn(rows, before):
    for _ in range(4):
        now = scores(policy, rows)
        loss = ((before - now).exp() - (before - now) - 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for question in questions:
    learn(*play(question))
