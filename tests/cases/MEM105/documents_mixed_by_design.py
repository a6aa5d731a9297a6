from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, packing_strategy="wrapped")  # expect: MEM105 hint
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
