from peft import LoraConfig, get_peft_model
from transformers import PreTrainedModel


class Scores(PreTrainedModel):
    def gradient_checkpointing_enable(self):
        self.body.checkpoints = True


scores = Scores(config)
scores.gradient_checkpointing_enable()
scores = get_peft_model(scores, LoraConfig())
scores.gradient_checkpointing_enable()
