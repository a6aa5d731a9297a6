# about: `self.model` is what a function gives, which may give another the next time.
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)


class Tuning:
    @property
    def model(self):
        return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def train(self, rows):
        tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
        trainer = Trainer(  # expect: MEM201
            model=self.model,
            args=TrainingArguments("out", gradient_checkpointing=True),
            train_dataset=rows,
            data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        )
        trainer.train()


Tuning().train(rows)
