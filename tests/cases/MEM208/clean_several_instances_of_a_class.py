import lightning
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM


class Writer(lightning.LightningModule):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def validation_step(self, batch, index):
        outputs = self.model(batch["input_ids"], labels=batch["labels"])
        return outputs.logits.argmax(-1)


trainer = lightning.Trainer(precision="bf16-mixed")
for model in (
    Writer(AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")),
    Writer(AutoModelForCausalLM.from_pretrained("gpt2")),
):
    trainer.fit(model, loader)
