from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B-Instruct")
args = DPOConfig("out", per_device_train_batch_size=1, fp16=True, optim="adamw_torch_fused")
trainer = DPOTrainer(model=model, args=args, train_dataset=rows)
trainer.train()
