# expect: MEM905, MEM901

from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("out", per_device_train_batch_size=4)
trainer = SFTTrainer(
    model="Qwen/Qwen3-8B", args=args, train_dataset=dataset, packing=True, max_seq_length=1024,
    dataset_text_field="text",
)
trainer.train()
