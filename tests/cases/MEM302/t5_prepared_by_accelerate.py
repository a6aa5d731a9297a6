from accelerate import Accelerator
from transformers import T5ForConditionalGeneration


def train(accelerator, model, optimizer, loader):
    for batch in loader:
        outputs = model(  # expect: MEM302
            input_ids=batch["input_ids"],
            labels=batch["labels"],
        )
        accelerator.backward(outputs.loss)
        optimizer.step()


accelerator = Accelerator()
model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
model, optimizer, loader = accelerator.prepare(model, make_optimizer(model), make_loader())
train(accelerator, model, optimizer, loader)
