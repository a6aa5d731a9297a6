# about: A decision: the fix is unsafe.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", model_init_kwargs=dict(dtype="float32"))  # expect: MEM401
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=rows).train()
