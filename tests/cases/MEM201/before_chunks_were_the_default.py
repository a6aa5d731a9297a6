# target: trl=1.5, transformers=5.10
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=dataset).train()  # expect: MEM201
chunked = SFTConfig("chunked", loss_type="chunked_nll")
SFTTrainer("Qwen/Qwen3-0.6B", args=chunked, train_dataset=dataset).train()
