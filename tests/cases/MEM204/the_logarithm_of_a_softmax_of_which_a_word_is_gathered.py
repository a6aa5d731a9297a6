from transformers import AutoModelForCausalLM

actor = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
for batch, words, gain in loader:
    logits = actor(**batch, use_cache=False).logits[:, :-1]
    shares = logits.softmax(dim=-1).log()  # expect: MEM204
    chosen = shares.gather(-1, words.unsqueeze(-1)).squeeze(-1)
    (-chosen * gain).mean().backward()
    optimizer.step()
