import sys

import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DPOTrainer


class Trainer(transformers.Trainer):
    def __init__(self, model=None, args=None, tokenizer=None, loss_of=None):
        super(Trainer, self).__init__(model=model, args=args, tokenizer=tokenizer)  # expect: MEM901
        self.loss_of = loss_of


class Ranking(DPOTrainer):
    def __init__(self, model, args, strength, **rest):
        super().__init__(model, args=args, beta=strength, **rest)  # expect: MEM901


class Teaching(transformers.Trainer):
    pass


model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", dtype="auto")
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-410m")
args = TrainingArguments("out")
if len(sys.argv) > 2:
    chosen = Teaching
else:
    chosen = transformers.Trainer
trainer = chosen(model=model, args=args, tokenizer=tokenizer)  # expect: MEM901
