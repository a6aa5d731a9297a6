from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)
from memlint_runtime import fuse_causal_lm_loss


class Tuning:
    def __init__(self):
        self.tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def train(self, rows):
        fuse_causal_lm_loss(self.model)
        trainer = Trainer(
            model=self.model,
            args=TrainingArguments("out", gradient_checkpointing=True),
            train_dataset=rows,
            data_collator=DataCollatorForLanguageModeling(self.tokenizer, mlm=False),
        )
        trainer.train()


Tuning().train(rows)
