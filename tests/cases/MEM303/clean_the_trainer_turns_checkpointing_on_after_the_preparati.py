# about: The trainer turns checkpointing on after the preparation, in its own kind.
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-0.6B", quantization_config=BitsAndBytesConfig(load_in_4bit=True)
)
model = prepare_model_for_kbit_training(model)
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
