from transformers import Trainer


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        loss = outputs.loss * 2
        self.total += loss  # expect: MEM701
        return (loss, outputs) if return_outputs else loss


Weighted(model, args, train_dataset=rows).train()
