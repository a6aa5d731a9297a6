# about: what a helper cuts has a name that says nothing
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def beginning(what, most):
    return what[:most]


def prepare(row):
    return {"input_ids": beginning(words(row["text"])["input_ids"], 512)}


Trainer(net, args, train_dataset=load("rows").map(prepare)).train()
