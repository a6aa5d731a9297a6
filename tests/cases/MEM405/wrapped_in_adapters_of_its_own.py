# about: The copy is wrapped in fresh adapters as the policy is: advice.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer


class Tuning:
    def __init__(self, name):
        self.policy = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")
        self.reference = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")

    def run(self, pairs):
        self.policy = get_peft_model(self.policy, LoraConfig(r=16))
        self.reference = get_peft_model(self.reference, LoraConfig(r=16))
        DPOTrainer(
            self.policy,
            ref_model=self.reference,  # expect: MEM405
            args=DPOConfig("out"),
            train_dataset=pairs,
        ).train()


Tuning(settings.base).run(pairs)
