from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

for name in names:
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="eager")  # expect: MEM304
    for batch in loader:
        model(**batch).loss.backward()
gemma = AutoModelForCausalLM.from_pretrained("google/gemma-2-2b", attn_implementation="eager")  # expect: MEM304 hint
SFTTrainer(gemma, args=SFTConfig("out"), train_dataset=dataset).train()
