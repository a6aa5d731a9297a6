from transformers import AutoModelForCausalLM

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for rows in loader:
    answer = net(**rows, output_hidden_states=True)
    distill(answer, rows).backward()
