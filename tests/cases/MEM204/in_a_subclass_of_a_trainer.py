# about: The trainer is made elsewhere; its loss is computed here.
from trl import GRPOTrainer
from trl.trainer.utils import selective_log_softmax


class PolicyTrainer(GRPOTrainer):
    def _get_per_token_logps(self, model, input_ids, attention_mask):
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, :-1]
        return selective_log_softmax(logits / self.temperature, input_ids[:, 1:])  # expect: MEM204

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logps = self._get_per_token_logps(model, inputs["ids"], inputs["mask"])
        return -(logps * inputs["advantages"]).mean()
