from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Tutor(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        liked = model(**inputs["liked"], output_hidden_states=True)
        left = model(**inputs["left"])
        loss = pull(liked.hidden_states[-1]) + push(liked.logits, left.logits)
        return (loss, liked) if return_outputs else loss


name = "Qwen/Qwen3-0.6B"
if long:
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="flash_attention_2")
else:
    model = AutoModelForCausalLM.from_pretrained(name)
Tutor(model=model, args=TrainingArguments("out"), train_dataset=rows).train()
