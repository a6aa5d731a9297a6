# about: Without a gradient Adam touches no weight, and makes no temporaries.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Watcher(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = self.compute_loss(model, inputs)
        print(loss.item())
        return loss


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
args = TrainingArguments("out", bf16=True, optim="adamw_torch")
Watcher(model=model, args=args, train_dataset=rows).train()
