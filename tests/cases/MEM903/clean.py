import pytest
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", padding_free=True)
with pytest.raises(ValueError, match="not enforced"):
    SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
