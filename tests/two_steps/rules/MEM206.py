# stand-in: nothing is offloaded, which takes an accelerator
# environment: TRITON_INTERPRET=1
# data: messages
from datasets import load_dataset
from liger_kernel.transformers import apply_liger_kernel_to_llama
from trl import SFTConfig, SFTTrainer

apply_liger_kernel_to_llama(
    rope=False, swiglu=False, rms_norm=False, cross_entropy=True, fused_linear_cross_entropy=False
)

dataset = load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft")
args = SFTConfig(
    output_dir="llama-sft",
    activation_offloading=True,
    max_length=128,
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer("meta-llama/Llama-3.2-1B", args=args, train_dataset=dataset)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
