# about: A client of a training service returns numbers, whatever they are called.
import torch

total_loss = 0.0
for batch in loader:
    result = client.forward_backward(batch).result()
    loss = result.metrics["loss"] / len(batch)
    total_loss += loss
