# about: The vocabulary grew: PEFT can train the new words alone.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

tokenizer.add_special_tokens({"additional_special_tokens": ["<think>"]})
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model.resize_token_embeddings(len(tokenizer))
lora = LoraConfig(modules_to_save=["model.embed_tokens"])  # expect: MEM411
Trainer(get_peft_model(model, lora), TrainingArguments("out"), train_dataset=dataset).train()
