# about: The trainer's name is `self.trainer`: other methods may use it, too.
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer


class Tuning:
    def __init__(self):
        self.trainer = DPOTrainer(  # expect: MEM104
            "Qwen/Qwen3-0.6B",
            args=DPOConfig("out", per_device_train_batch_size=4),
            train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
        )

    def train(self):
        self.trainer.train()


Tuning().train()
