from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Training:
    def prepared(self, model):
        return prepare_model_for_kbit_training(model)

    def run(self, dataset):
        model = self.prepared(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B"))
        args = TrainingArguments("out", max_steps=10, activation_checkpointing=True)
        Trainer(model, args, train_dataset=dataset).train()
