# about: QLoRA by hand.
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training, PeftModel
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

name = "meta-llama/Llama-3.1-8B"
quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")  # planted: MEM408
model = AutoModelForCausalLM.from_pretrained(
    name,
    quantization_config=quantization,
    attn_implementation="eager",  # planted: MEM304
    device_map="auto",
)
model = prepare_model_for_kbit_training(model)  # planted: MEM303
model = get_peft_model(
    model,
    LoraConfig(
        r=16,
        target_modules="all-linear",
        modules_to_save=["embed_tokens", "lm_head"],  # planted: MEM411
        task_type="CAUSAL_LM",
    ),
)
tokenizer = AutoTokenizer.from_pretrained(name)


def collate(rows):
    enc = tokenizer([row["text"] for row in rows], padding=True, truncation=True, max_length=1024,
                    return_tensors="pt")
    enc["labels"] = enc["input_ids"].clone()
    return enc


loader = DataLoader(rows, batch_size=4, shuffle=True, collate_fn=collate)  # planted: MEM104
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
model.train()
for batch in loader:
    outputs = model(**batch.to("cuda"), use_cache=False)  # planted: MEM201, MEM307
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained("adapter")
base = AutoModelForCausalLM.from_pretrained(name, device_map="auto")  # planted: MEM409
PeftModel.from_pretrained(base, "adapter").merge_and_unload().save_pretrained("merged")
