from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, Trainer, TrainingArguments


class Tutor(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        answer = model(input_ids=inputs["input_ids"], labels=inputs["labels"])
        loss = distil(answer.logits, inputs["told"])
        return (loss, loss) if return_outputs else loss


first = AutoModelForSeq2SeqLM.from_pretrained("google-t5/t5-small")
Tutor(model=first, args=TrainingArguments("out"), train_dataset=rows).train()
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Tutor(model=other, args=TrainingArguments("out"), train_dataset=rows).train()
