# about: adapters of an earlier run, copied into a model that is on the GPU by then
import torch
from peft import get_peft_model, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, Trainer

model = get_peft_model(AutoModelForCausalLM.from_pretrained("huggyllama/llama-7b"), config)
weights = torch.load("adapter_model.bin")  # expect: MEM410
set_peft_model_state_dict(model, weights)
Trainer(model, args, train_dataset=rows).train()
