import transformers

for batch in loader:
    model(**batch)
    policy.forward(batch)
    loss = compute(batch)
    loss.backward()
