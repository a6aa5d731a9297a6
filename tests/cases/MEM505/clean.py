from memlint_runtime import step_trainer_in_backward
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("q", args=SFTConfig("out", max_grad_norm=0), train_dataset=dataset)
step_trainer_in_backward(trainer)
trainer.train()
