import deepspeed
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedModel


class Scored(PreTrainedModel):
    def __init__(self, trunk):
        super().__init__(trunk.config)
        self.trunk = trunk

    def gradient_checkpointing_enable(self):
        self.trunk.encoder.checkpointing = True


model = get_peft_model(Scored(trunk), LoraConfig(r=8))
model.gradient_checkpointing_enable()
engine, *_ = deepspeed.initialize(model=Scored(trunk), config="zero.json")
engine.gradient_checkpointing_enable()
