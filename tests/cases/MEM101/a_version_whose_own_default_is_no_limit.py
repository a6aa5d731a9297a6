# target: trl=0.13
from trl import DPOConfig, DPOTrainer

args = DPOConfig(output_dir="out")  # max_length  # expect: MEM101
DPOTrainer(model, args=args, train_dataset=dataset, processing_class=tokenizer).train()
