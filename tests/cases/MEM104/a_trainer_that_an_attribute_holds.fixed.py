from datasets import load_dataset
from trl import DPOConfig, DPOTrainer
from memlint_runtime import train_without_padding


class Tuning:
    def __init__(self):
        self.trainer = DPOTrainer(
            "Qwen/Qwen3-0.6B",
            args=DPOConfig("out", per_device_train_batch_size=4),
            train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
        )
        train_without_padding(self.trainer)

    def train(self):
        self.trainer.train()


Tuning().train()
