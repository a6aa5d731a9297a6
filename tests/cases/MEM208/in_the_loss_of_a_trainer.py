from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Preferring(Trainer):
    def __init__(self, share, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.share = share

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        liked = model(**inputs["liked"])
        left = model(**{"input_ids": inputs["left"], "labels": inputs["left"]})  # expect: MEM208
        loss = liked.loss - self.share * gap(liked.logits, left.logits)
        return (loss, liked) if return_outputs else loss


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Preferring(0.1, model=model, args=TrainingArguments("out"), train_dataset=rows).train()
