# about: What a function gets is unknown here; its annotation says what it is.
import torch
from transformers import LlamaForCausalLM


def edit(decoder: "LlamaForCausalLM | None", optimizer, batches):
    for ids, targets in batches:
        logits = decoder(input_ids=ids).logits  # expect: MEM307
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
