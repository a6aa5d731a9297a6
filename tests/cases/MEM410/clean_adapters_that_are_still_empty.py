# about: Adapters on the meta device take the tensors that are read.
import torch
from peft import set_peft_model_state_dict

set_peft_model_state_dict(model, torch.load("adapter.bin"), low_cpu_mem_usage=True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
