# about: A model of rewards has one output a row: two pairs differ by the inputs of its layers, some 0.1 GiB.
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification
from trl import RewardConfig, RewardTrainer

dataset = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct", num_labels=1)
args = RewardConfig("out", per_device_train_batch_size=2)
RewardTrainer(model=model, args=args, train_dataset=dataset).train()
