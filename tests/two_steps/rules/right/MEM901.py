import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_name = "meta-llama/Llama-2-7b-hf"
model = AutoModelForCausalLM.from_pretrained(model_name, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(model_name)
tokenizer.pad_token = tokenizer.eos_token

dataset = load_dataset("timdettmers/openassistant-guanaco", split="train")
dataset = dataset.map(lambda row: {"text": row["instruction"] + row["output"]})

trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    args=SFTConfig(
        output_dir="./results",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
        bf16=False,
        dataset_text_field="text",
        max_length=128,
        packing=False,
    ),
    train_dataset=dataset,
    peft_config=LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
