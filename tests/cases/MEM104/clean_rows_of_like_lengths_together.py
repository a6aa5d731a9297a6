# target: transformers=4.57
# about: a batch has rows of like lengths, so that hardly any of them is padded
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=4, group_by_length=True, bf16=True)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
Trainer(model, args, train_dataset=rows, data_collator=collator).train()
