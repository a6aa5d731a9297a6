# about: The preparation leaves checkpointing alone: told to, or because nothing is quantized.
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

quantized = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config=quantized)
model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
model = prepare_model_for_kbit_training(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"))
