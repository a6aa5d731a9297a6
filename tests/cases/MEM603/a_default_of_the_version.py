# about: OnlineDPO reserves 55 % unless told otherwise, and does not sleep.
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

args = OnlineDPOConfig("out", use_vllm=True)  # expect: MEM603
OnlineDPOTrainer("Qwen/Qwen3-1.7B", args=args, train_dataset=dataset).train()
