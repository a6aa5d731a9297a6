from data import make_pairs
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer
from memlint_runtime import train_without_padding

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
trainer = DPOTrainer(
    model,
    args=DPOConfig("out", per_device_train_batch_size=rows_of_a_batch),
    train_dataset=make_pairs("train"),
    processing_class=tokenizer,
)
train_without_padding(trainer)
trainer.train()
shown = tokenizer(["What then?"], padding="max_length", max_length=64, return_tensors="pt")
model.generate(**shown)
