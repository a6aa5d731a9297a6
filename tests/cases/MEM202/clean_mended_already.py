# about: Mended already.
from memlint_runtime.losses import fuse_trl_losses
from trl.experimental.cpo import CPOConfig, CPOTrainer

trainer = CPOTrainer(model, args=CPOConfig("out"), train_dataset=pairs)
fuse_trl_losses(trainer)
trainer.train()
