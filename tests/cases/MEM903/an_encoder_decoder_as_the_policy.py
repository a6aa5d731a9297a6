# about: T5's decoder wants inputs of its own; BART makes them of the encoder's.
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, T5ForConditionalGeneration
from trl import DPOConfig, DPOTrainer

one = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
DPOTrainer(one, args=DPOConfig("a"), train_dataset=rows)  # expect: MEM903
two = T5ForConditionalGeneration.from_pretrained("google-t5/t5-small")
DPOTrainer(two, args=DPOConfig("b"), train_dataset=rows)  # expect: MEM903
other = AutoModelForSeq2SeqLM.from_pretrained("facebook/bart-base")
DPOTrainer(other, args=DPOConfig("c"), train_dataset=rows)
decoder = AutoModelForCausalLM.from_pretrained("somebody/gpt5-mini")
DPOTrainer(decoder, args=DPOConfig("d"), train_dataset=rows)
