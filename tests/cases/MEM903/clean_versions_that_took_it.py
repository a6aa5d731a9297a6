# about: What today's trainers refuse together, older ones took.
# target: trl=0.11,transformers=4.44
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

lora = LoraConfig(target_modules=["q_proj", "v_proj", "lm_head"])
base = AutoModelForCausalLM.from_pretrained("m")
collator = DataCollatorForSeq2Seq(tokenizer)


def texts(row):
    return row["text"]


SFTTrainer(get_peft_model(base, lora), args=SFTConfig("c"), peft_config=lora, train_dataset=rows)
SFTTrainer("m", args=SFTConfig("d", padding_free=True), data_collator=collator, train_dataset=rows)
SFTTrainer(
    "m", args=SFTConfig("e", completion_only_loss=True), formatting_func=texts, train_dataset=rows
)
DPOTrainer("m", args=DPOConfig("f", sync_ref_model=True), peft_config=lora, train_dataset=rows)
GRPOTrainer(
    "m", args=GRPOConfig("g", reward_weights=[1.0, 2.0]), reward_funcs=[texts], train_dataset=rows
)
