# with: MEM905
# data: instruction,output
# before: trainers and loaders of 2023 take other keywords
import torch
from datasets import load_dataset
from peft import LoraConfig, prepare_model_for_int8_training
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import SFTTrainer

model_name = "meta-llama/Llama-2-7b-hf"
model = AutoModelForCausalLM.from_pretrained(
    model_name,
    load_in_8bit=False,
    torch_dtype=torch.float32,
    use_auth_token=True,
)
tokenizer = AutoTokenizer.from_pretrained(model_name)
tokenizer.pad_token = tokenizer.eos_token

dataset = load_dataset("timdettmers/openassistant-guanaco", split="train")
dataset = dataset.map(lambda row: {"text": row["instruction"] + row["output"]})

training_args = TrainingArguments(
    output_dir="./results",
    overwrite_output_dir=True,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    evaluation_strategy="no",
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
    logging_dir="logs",
    group_by_length=False,
    bf16=False,
    no_cuda=True,
)
trainer = SFTTrainer(
    model=model,
    tokenizer=tokenizer,
    args=training_args,
    train_dataset=dataset,
    peft_config=LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM"),
    dataset_text_field="text",
    max_seq_length=128,
    packing=False,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
