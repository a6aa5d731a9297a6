# target: trl=0.18.1,transformers=4.52.4,torch=2.7.0
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B-Instruct")
args = DPOConfig("out", per_device_train_batch_size=1, fp16=True)
trainer = DPOTrainer(model=model, args=args, train_dataset=rows)  # expect: MEM507
trainer.train()
