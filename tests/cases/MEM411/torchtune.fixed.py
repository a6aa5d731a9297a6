from functools import partial

import torch
from torch.utils.data import DataLoader
from torchtune import modules, training
from torchtune.data import padded_collate_sft
from torchtune.datasets import alpaca_dataset
from torchtune.models.llama3 import lora_llama3_8b, llama3_tokenizer
from torchtune.modules.peft import get_adapter_params, set_trainable_params

device = torch.device("cuda")
tokenizer = llama3_tokenizer("tokenizer.model", max_seq_len=1024)
with training.set_default_dtype(torch.bfloat16):
    model = lora_llama3_8b(["q_proj", "v_proj"], apply_lora_to_output=False)
set_trainable_params(model, get_adapter_params(model))
model.to(device)
training.set_activation_checkpointing(
    model, auto_wrap_policy={modules.TransformerSelfAttentionLayer}
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
loss_fn = torch.nn.CrossEntropyLoss()
loader = DataLoader(
    alpaca_dataset(tokenizer, packed=False),
    batch_size=1,
    collate_fn=partial(padded_collate_sft, padding_idx=tokenizer.pad_id, ignore_idx=-100),
)
model.train()
for batch in loader:
    tokens, labels = batch["tokens"].to(device), batch["labels"].to(device)
    labels = torch.hstack((labels[..., 1:], torch.full_like(labels[..., :1], -100)))
    logits = model(tokens)
    loss = loss_fn(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
