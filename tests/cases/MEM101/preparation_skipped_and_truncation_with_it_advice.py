from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
train = dataset.map(lambda row: tokenizer(row["text"]))
args = SFTConfig("out", max_length=512, dataset_kwargs={"skip_prepare_dataset": True})  # expect: MEM101
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=train).train()
