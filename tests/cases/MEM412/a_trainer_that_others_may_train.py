# about: Whoever calls the function has the trainer, and trains it.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer



def build(dataset):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # expect: MEM412
    model = get_peft_model(model, LoraConfig())
    trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
    return trainer
