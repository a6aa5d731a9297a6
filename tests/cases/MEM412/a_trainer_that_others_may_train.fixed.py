from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
from memlint_runtime import stream_frozen_weights



def build(dataset):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
    model = get_peft_model(model, LoraConfig())
    stream_frozen_weights(model)
    trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
    return trainer
