# about: By the configuration.
from trl import SFTConfig, SFTTrainer

args = SFTConfig(  # expect: MEM206
    "out",
    activation_offloading=True,
    use_liger_kernel=True,
    liger_kernel_config={"cross_entropy": True},
)
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
