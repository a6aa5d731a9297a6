# about: One row of at most 2,048 tokens: most rows are far shorter, and nothing fills them up.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=quantization)
model = get_peft_model(model, LoraConfig())
args = SFTConfig("out", per_device_train_batch_size=1, max_length=2048)
SFTTrainer(model, args=args, train_dataset=dataset).train()
