from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def run(batch):
    outputs = model(batch["input_ids"], labels=batch["labels"])
    print(outputs.logits.shape)
    return outputs


def log(batch):
    outputs = model(batch["input_ids"], labels=batch["labels"])
    logits = outputs.logits
    logger.add(outputs)
    return logits
