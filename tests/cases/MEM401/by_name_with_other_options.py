# about: TRL loads in float32 where its options name no dtype.
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

options = {"attn_implementation": "sdpa"}
args = SFTConfig("out", model_init_kwargs=options)
trainer = SFTTrainer(
    "meta-llama/Llama-3.1-8B",  # expect: MEM401
    args=args,
    train_dataset=rows,
    peft_config=LoraConfig(),
)
trainer.train()
