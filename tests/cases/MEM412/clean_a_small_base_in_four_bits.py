# about: In 4 bits 3 billion weights take 1.6 GiB, which is not worth the way from the host.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-3B", quantization_config=quantization)
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
