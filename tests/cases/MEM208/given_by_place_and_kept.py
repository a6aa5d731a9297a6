from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Base(Trainer):
    def __init__(self, model, teacher, **kwargs):
        super().__init__(model, **kwargs)
        self.teacher = teacher.eval()

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        rows = {"input_ids": inputs["input_ids"], "labels": inputs["input_ids"]}  # expect: MEM208
        answer = self.model(**rows)
        loss = distil(answer.logits, inputs["told"])
        return (loss, loss) if return_outputs else loss


class Pupil(Base):
    pass


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, LoraConfig(r=8))
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Pupil(model, teacher, args=TrainingArguments("out"), train_dataset=rows).train()
