from dataclasses import dataclass

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer


@dataclass
class Settings:
    sft_checkpoint: str = "checkpoints/sft"


def train(settings):
    args = GRPOConfig("out", num_generations=4)
    GRPOTrainer(settings.sft_checkpoint, reward_funcs=reward, args=args, train_dataset=rows).train()


train(Settings())
SFTTrainer("./outputs/run-3", args=SFTConfig("out"), train_dataset=rows).train()
model = AutoModelForCausalLM.from_pretrained("../results/last")
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
