# about: The options that a partial brings along are not in the call.
import functools

from transformers import TrainingArguments
from trl import SFTTrainer

arguments = functools.partial(TrainingArguments, output_dir="out", bf16=True)
args = arguments(learning_rate=1e-4)  # expect: MEM905
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
trainer.train()
