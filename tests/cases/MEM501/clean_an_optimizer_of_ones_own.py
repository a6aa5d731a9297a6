# about: The script gives the trainer its optimizer, or makes it in a subclass.
import torch
from trl import SFTConfig, SFTTrainer


class Own(SFTTrainer):
    def create_optimizer(self):
        self.optimizer = make(self.model)
        return self.optimizer


args = SFTConfig("out", packing=True)
Own("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset, optimizers=(optimizer, None)).train()
