# about: An adapter of the embeddings is small.
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

lora = LoraConfig(target_modules=["q_proj", "embed_tokens"], modules_to_save=None)
SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig(), peft_config=lora, train_dataset=dataset).train()
