# about: A configuration under a name that the trainer does not have; misspelled names.
import torch
from transformers import AutoModelForCausalLM, TrainngArguments  # expect: MEM901
from torch.optim import AdaamW
from trl import SFTConfig, SFTTrainer

SFTTrainer("m", config=SFTConfig("a"), train_dataset=rows)  # expect: MEM901
SFTTrainer("m", args=SFTConfig("a", lerning_rate=1e-4, zzz=1), train_dataset=rows)  # expect: MEM901, MEM901
