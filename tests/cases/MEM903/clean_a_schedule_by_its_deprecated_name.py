# about: The old name of an option counts where the target still takes it.
# target: trl=0.12,transformers=4.46
from transformers import Trainer, TrainingArguments

options = {"load_best_model_at_end": True, "save_strategy": "epoch"}
by_epoch = TrainingArguments("a", evaluation_strategy="epoch", **options)
Trainer("m", by_epoch, train_dataset=rows, eval_dataset=rows).train()
