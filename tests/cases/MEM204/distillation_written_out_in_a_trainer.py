import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="auto").eval()


def divergence(got, wanted):
    reached = torch.log_softmax(got, -1, dtype=torch.float32)  # expect: MEM204
    target = torch.log_softmax(wanted, -1, dtype=torch.float32)
    return (target.exp() * (target - reached)).sum(-1).mean()


class Imitator(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        with torch.no_grad():
            wanted = teacher(**inputs).logits
        loss = divergence(outputs.logits, wanted)
        return (loss, outputs) if return_outputs else loss


student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="auto")
Imitator(student, TrainingArguments("out", bf16=True), train_dataset=rows).train()
