# about: In 4 bits a base is a quarter as long under way: 1,024 tokens that are all there hide it.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=quantization)  # expect: MEM412
model = get_peft_model(model, LoraConfig())
args = SFTConfig("out", per_device_train_batch_size=1, packing=True, max_length=1024)
SFTTrainer(model, args=args, train_dataset=dataset).train()
