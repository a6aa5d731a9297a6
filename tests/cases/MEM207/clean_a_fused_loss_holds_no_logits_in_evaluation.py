# about: A fused loss holds no logits in evaluation either.
from memlint_runtime import fuse_causal_lm_loss
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
fuse_causal_lm_loss(model)
args = TrainingArguments("out", per_device_train_batch_size=1, eval_strategy="epoch")
Trainer(model, args, train_dataset=train, eval_dataset=test).train()
