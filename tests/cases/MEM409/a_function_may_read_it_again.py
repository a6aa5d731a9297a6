# about: No fix: a function may read the trained model again.
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(model, SFTConfig("out"), train_dataset=dataset)


def looked_at():
    return model.config


trainer.train()
other = AutoModelForCausalLM.from_pretrained("out", device_map="auto")  # expect: MEM409
compare(other, looked_at())
