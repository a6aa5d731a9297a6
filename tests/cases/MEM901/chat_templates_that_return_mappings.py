# target: transformers=5.23
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True)  # expect: MEM901
answer = tokenizer(text, add_special_tokens=False)["input_ids"]
ids = prompt + answer

batch = tokenizer.apply_chat_template(chat, return_tensors="pt").to("cuda")  # expect: MEM901
model.generate(batch, max_new_tokens=8)
width = batch.shape[1]

length = len(tokenizer.apply_chat_template(chat, tokenize=True))  # expect: MEM901
first = tokenizer.apply_chat_template(chat)[0]  # expect: MEM901


def encode(row):
    tokens = tokenizer.apply_chat_template(row["messages"])  # expect: MEM901
    tokens += [tokenizer.eos_token_id]
    return {"input_ids": tokens}


rows = rows.map(encode)


class Prompts:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def tensor(self, chat):
        return torch.tensor([self.tokenizer.apply_chat_template(chat)])  # expect: MEM901


Prompts(tokenizer).tensor(chat)
model.generate(
    input_ids=tokenizer.apply_chat_template(  # expect: MEM901
        chat,
        return_tensors="pt",
    )
)
