from transformers import AutoModelForCausalLM

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for rows in loader:
    answer = net(**rows, output_hidden_states=True)
    (answer[0] + answer[2][-1].mean()).backward()
