# about: No fix: a loop would delete the trained model twice.
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(model, SFTConfig("out"), train_dataset=dataset)
trainer.train()
for question in questions:
    other = AutoModelForCausalLM.from_pretrained("out", device_map="auto")  # expect: MEM409
    answer(other, question)
