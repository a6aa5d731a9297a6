# about: the mapped function leaves the cutting to a helper
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


def even(ids, size):
    return [ids[i : i + size] for i in range(0, len(ids), size)]


def prepare(rows):
    return {"input_ids": even(sum(rows["input_ids"], []), 1024)}


rows = load_dataset("wikitext", split="train").map(prepare, batched=True)
args = SFTConfig("out", per_device_train_batch_size=4)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
