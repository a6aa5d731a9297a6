# about: One call fuses the loss of whichever trainer.
from memlint_runtime import fuse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows)
fuse(trainer, z_loss=1e-4)
trainer.train()
