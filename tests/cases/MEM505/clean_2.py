from memlint_runtime import OptimizerInBackward

optimizer = OptimizerInBackward(plain)
for i, batch in enumerate(loader):
    model(**batch).loss.backward()
    optimizer.step()
    if i % 100 == 0:
        print(i)
