# about: Flash attention takes lengths; so does FlexAttention its own masks.
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("q", attn_implementation="flash_attention_2")
trainer = SFTTrainer(model, args=SFTConfig("out", packing=True), train_dataset=dataset)
kwargs = {"attn_implementation": "kernels-community/flash-attn2"}
args = SFTConfig("out", packing=True, model_init_kwargs=kwargs)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
