# about: A method makes the trainer: the model has a name there, `self.model`. Other methods, of
# about: classes that build on this one too, may read its logits.
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)


class Tuning:
    def __init__(self):
        self.tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def train(self, rows):
        trainer = Trainer(  # expect: MEM201
            model=self.model,
            args=TrainingArguments("out", gradient_checkpointing=True),
            train_dataset=rows,
            data_collator=DataCollatorForLanguageModeling(self.tokenizer, mlm=False),
        )
        trainer.train()


Tuning().train(rows)
