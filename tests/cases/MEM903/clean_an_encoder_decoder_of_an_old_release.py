# about: Until 0.28 the trainer made the inputs of a decoder.
# target: trl=0.24,transformers=4.57
from transformers import AutoModelForSeq2SeqLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
DPOTrainer(model, args=DPOConfig("out"), train_dataset=rows)
