# target: transformers=4.44.2,torch=2.4,accelerate=0.33
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq
from transformers import Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B")


def prepare(row):
    tokens = tokenizer(row["text"], truncation=True, max_length=2048)
    return {"input_ids": tokens["input_ids"], "labels": tokens["input_ids"]}


rows = dataset.map(prepare, remove_columns=["text"])
args = TrainingArguments("out", per_device_train_batch_size=4)
collator = DataCollatorForSeq2Seq(tokenizer)  # expect: MEM104
Trainer(model, args, train_dataset=rows, data_collator=collator).train()
