# about: A frozen base that is cast to float32.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").float()  # expect: MEM401
net = get_peft_model(base, LoraConfig(r=8))
Trainer(net, TrainingArguments("out", fp16=True), train_dataset=rows).train()
