# target: trl=0.12, transformers=4.46
# about: a batch has rows of like lengths, so that hardly any of them is padded
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
args = SFTConfig("out", per_device_train_batch_size=4, max_seq_length=1024, group_by_length=True)
SFTTrainer(model, args=args, train_dataset=rows).train()
