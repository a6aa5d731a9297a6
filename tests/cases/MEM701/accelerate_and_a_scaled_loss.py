from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
running = 0
for epoch in range(3):
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            outputs = model(**batch)
            loss = outputs.loss / 4
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        running = running + loss  # expect: MEM701
print(running)
