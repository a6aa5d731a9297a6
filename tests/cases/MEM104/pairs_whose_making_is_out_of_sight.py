# about: DPO tokenizes pairs of answers itself: two that differ in length, whoever made them, and
# about: a tokenizer that pads for generation has no part in it.
from data import make_pairs
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
trainer = DPOTrainer(  # expect: MEM104
    model,
    args=DPOConfig("out", per_device_train_batch_size=rows_of_a_batch),
    train_dataset=make_pairs("train"),
    processing_class=tokenizer,
)
trainer.train()
shown = tokenizer(["What then?"], padding="max_length", max_length=64, return_tensors="pt")
model.generate(**shown)
