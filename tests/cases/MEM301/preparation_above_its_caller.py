# about: The preparation turns nothing on for this model, which only its caller below it knows.
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Training:
    def prepared(self, model):
        return prepare_model_for_kbit_training(model)

    def run(self, dataset):
        model = self.prepared(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B"))
        args = TrainingArguments("out", max_steps=10)  # expect: MEM301
        Trainer(model, args, train_dataset=dataset).train()
