from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer
from gc import collect

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="auto")
args = GRPOConfig(output_dir="qwen3-grpo")
trainer = GRPOTrainer(model, reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
trainer.save_model(args.output_dir)
del trainer, model
collect()
tried = AutoModelForCausalLM.from_pretrained("qwen3-grpo", device_map="auto")
