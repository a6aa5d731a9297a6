# about: Short; decided about; not checkpointed, which is another fault.
from trl import SFTConfig, SFTTrainer

SFTTrainer("q", args=SFTConfig("out", max_length=8192), train_dataset=dataset).train()
args = SFTConfig("out", max_length=65536, activation_offloading=False)
SFTTrainer("q", args=args, train_dataset=dataset).train()
args = SFTConfig("out", max_length=65536, gradient_checkpointing=False)
SFTTrainer("q", args=args, train_dataset=dataset).train()
