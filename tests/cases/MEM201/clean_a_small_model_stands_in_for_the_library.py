# about: A model of the script's own may be trained instead.
import small

try:
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
except ImportError:
    AutoModelForCausalLM = small.Model
    from small import Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows).train()
