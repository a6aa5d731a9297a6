# about: bitsandbytes quantizes on the GPU, and `device_map` loads there: another way to load is advised.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(  # expect: MEM412
    "Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=True)
)
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()

other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-14B", device_map="auto")  # expect: MEM412
SFTTrainer(other, args=SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset).train()
