from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

options = {"attn_implementation": "sdpa", "dtype": "bfloat16"}
args = SFTConfig("out", model_init_kwargs=options)
trainer = SFTTrainer(
    "meta-llama/Llama-3.1-8B",
    args=args,
    train_dataset=rows,
    peft_config=LoraConfig(),
)
trainer.train()
