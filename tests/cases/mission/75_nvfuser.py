# expect: MEM901

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, torch_compile=True, torch_compile_backend="nvfuser")
Trainer(model=model, args=args, train_dataset=dataset).train()
