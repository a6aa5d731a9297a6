from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Tutor(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        liked = model(**inputs["liked"], output_hidden_states=True)
        left = model(**inputs["left"], output_hidden_states=True)
        loss = push(liked.logits, left.logits)
        return (loss, {"liked": liked, "left": left}) if return_outputs else loss


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Tutor(model=model, args=TrainingArguments("out"), train_dataset=rows).train()
