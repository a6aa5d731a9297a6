from transformers import Trainer

class Weighted(Trainer):
    loss_is_scaled_for_ga = False  # the mean of a batch, not of all that are accumulated

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss
