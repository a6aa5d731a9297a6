# about: Through the module, for RLOO.
import trl

trainer = trl.RLOOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, train_dataset=dataset)  # expect: MEM601
trainer.train()
