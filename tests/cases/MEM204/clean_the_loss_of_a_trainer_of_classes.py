from torch import nn
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


class Tutor(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        logits = model(**inputs).logits
        loss = nn.CrossEntropyLoss()(logits.float(), labels)
        return (loss, logits) if return_outputs else loss


net = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-0.6B", num_labels=3)
Tutor(net, TrainingArguments("out"), train_dataset=rows).train()
