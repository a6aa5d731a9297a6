# target: trl=1.9, transformers=5.20
from trl import SFTConfig, SFTTrainer

plain = SFTConfig("plain", loss_type="nll")
SFTTrainer("Qwen/Qwen3-0.6B", args=plain, train_dataset=dataset).train()  # expect: MEM201
weighted = SFTConfig("weighted")
weighted.loss_type = "dft"
SFTTrainer("Qwen/Qwen3-0.6B", args=weighted, train_dataset=dataset).train()  # expect: MEM201
