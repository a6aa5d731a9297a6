# about: Unsloth packs by itself.
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-4B")
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset, processing_class=tokenizer)
