# about: PEFT throws the positions away that keep documents apart.
from peft import PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=16))
args = TrainingArguments("out", per_device_train_batch_size=4)
Trainer(model, args, train_dataset=dataset, data_collator=DataCollatorForSeq2Seq(tokenizer))
