# target: transformers=5.23
# about: texts, explicit choices, processors, unknown and remote tokenizers, mappings used as such.
from transformers import AutoModelForCausalLM, AutoProcessor, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
text = tokenizer.apply_chat_template(chat, tokenize=False) + "<answer>"
ids = tokenizer.apply_chat_template(chat, return_dict=False) + [1]
ids = tokenizer.apply_chat_template(chat, **options) + [1]
ids = tokenizer.apply_chat_template(chat).input_ids + [1]
ids = tokenizer.apply_chat_template(chat)["input_ids"] + [1]
batch = tokenizer.apply_chat_template(chat, return_tensors="pt").to("cuda")
model.generate(**batch)
width = batch["input_ids"].shape[1]
maybe = tokenizer.apply_chat_template(chat)
if isinstance(maybe, dict):
    maybe = maybe["input_ids"]
joined = maybe + [1]
either = tokenizer.apply_chat_template(chat) if chat else [0]
more = either + [1]
names = len(tokenizer.apply_chat_template(chat).keys())
processor = AutoProcessor.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
prompt = processor.apply_chat_template(chat) + "<answer>"
own = AutoTokenizer.from_pretrained("THUDM/chatglm3-6b", trust_remote_code=True)
ids = own.apply_chat_template(chat) + [1]


def from_elsewhere(tokenizer, chat):
    return tokenizer.apply_chat_template(chat) + [1]


encoded = tokenizer.apply_chat_template([chat, chat])
rows = [encoded[0].ids, encoded[1].ids]
kept = tokenizer.apply_chat_template(chat)
store(kept)
