import torch

for batch in loader:
    outputs = model(**batch)
    loss = outputs.loss
    loss += 0.01 * outputs.aux_loss
    if regularize:
        loss = loss + penalty(model)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
