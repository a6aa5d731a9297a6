# target: trl=0.25
# about: The folder of the run is named after the model, which the command line may choose.
import argparse

from trl import SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen2.5-1.5B")  # expect: MEM401
trainer = SFTTrainer(model=parser.parse_args().model, train_dataset=rows)
trainer.train()
