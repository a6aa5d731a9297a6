# target: trl=0.13
from transformers import AutoModelForCausalLM
from trl import DPOTrainer


def set_up(settings):
    model = AutoModelForCausalLM.from_pretrained(settings.checkpoint)
    return DPOTrainer(model=model, args=settings.arguments, train_dataset=settings.rows())  # expect: MEM202


def run(settings):
    trainer = set_up(settings)
    trainer.train(resume_from_checkpoint=settings.resume)
