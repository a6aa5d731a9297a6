import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

prompt = tokenizer.apply_chat_template(
    chat,
    add_generation_prompt=True,
    return_dict=False,
)
answer = tokenizer(text, add_special_tokens=False)["input_ids"]
ids = prompt + answer

batch = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=False).to(
    "cuda",
)
model.generate(batch, max_new_tokens=8)
width = batch.shape[1]

length = len(
    tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False),
)
first = tokenizer.apply_chat_template(chat, return_dict=False)[0]


def encode(row):
    tokens = tokenizer.apply_chat_template(row["messages"], return_dict=False)
    tokens += [tokenizer.eos_token_id]
    return {"input_ids": tokens}


rows = rows.map(encode)


class Prompts:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def tensor(self, chat):
        return torch.tensor(
            [self.tokenizer.apply_chat_template(chat, return_dict=False)],
        )


Prompts(tokenizer).tensor(chat)
model.generate(
    input_ids=tokenizer.apply_chat_template(
        chat,
        return_tensors="pt",
        return_dict=False,
    )
)
