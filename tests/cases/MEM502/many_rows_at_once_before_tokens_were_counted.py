# about: Before transformers 4.46 a step's loss is the mean of its micro-batches' means.
# target: trl=0.11,transformers=4.45
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-3B", torch_dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=64, bf16=True)  # expect: MEM502
Trainer(model=model, args=args, train_dataset=dataset).train()
