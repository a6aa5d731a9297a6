from transformers import Trainer

class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):  # expect: MEM901
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss
