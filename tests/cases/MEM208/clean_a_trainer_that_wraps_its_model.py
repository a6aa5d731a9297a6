from school import Wrapped
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Tutor(Trainer):
    def __init__(self, model, **kwargs):
        super().__init__(model=Wrapped(model, heads=3), **kwargs)

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        answer = model(input_ids=inputs["input_ids"], labels=inputs["labels"])
        loss = distil(answer.logits, inputs["told"])
        return (loss, loss) if return_outputs else loss


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Tutor(model=model, args=TrainingArguments("out"), train_dataset=rows).train()
