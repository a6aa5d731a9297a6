# target: trl=0.19,transformers=4.52
import torch
from peft import LoraConfig, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import ORPOConfig, ORPOTrainer, setup_chat_format

bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Meta-Llama-3-8B", quantization_config=bits)
model, tokenizer = setup_chat_format(model, tokenizer)
model = prepare_model_for_kbit_training(model)  # expect: MEM408
args = ORPOConfig("out", per_device_train_batch_size=2, bf16=False)
trainer = ORPOTrainer(model=model, args=args, train_dataset=rows, peft_config=LoraConfig(r=16))
trainer.train()
