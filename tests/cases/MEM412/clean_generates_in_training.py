# about: Generation reads the whole base for each token.
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
trainer = GRPOTrainer(
    model, reward_funcs=reward, args=GRPOConfig("out"), peft_config=LoraConfig(), train_dataset=dataset
)
trainer.train()
