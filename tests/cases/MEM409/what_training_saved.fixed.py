from peft import AutoPeftModelForCausalLM, LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer


def main():
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
    trainer = SFTTrainer(model, SFTConfig("out"), peft_config=LoraConfig(), train_dataset=dataset)
    trainer.train()
    trainer.save_model("out")
    torch.cuda.empty_cache()
    merged = AutoPeftModelForCausalLM.from_pretrained("out", device_map="cpu")
    merged.merge_and_unload().save_pretrained("merged")


main()
