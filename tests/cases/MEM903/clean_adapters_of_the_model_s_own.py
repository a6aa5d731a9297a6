# about: A quantized model that gets its adapter by a method; one that another quantizes.
from transformers import AutoModelForCausalLM, GPTQConfig, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m", load_in_4bit=True)
model.add_adapter(adapter)
Trainer(model, TrainingArguments("a"), train_dataset=rows)
gptq = AutoModelForCausalLM.from_pretrained("m", quantization_config=GPTQConfig(bits=4))
Trainer(gptq, TrainingArguments("b"), train_dataset=rows)
