# data: prompt,chosen,rejected
# with: MEM905
# before: DPOTrainer takes its options from its configuration now
# arguments: --output_dir out --per_device_train_batch_size 2 --learning_rate 1e-3 --max_steps 4 --logging_steps 1 --beta 0.3
from dataclasses import dataclass, field

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, TrainingArguments
from trl import DPOTrainer


@dataclass
class ScriptArguments:
    model_name_or_path: str = field(default="Qwen/Qwen2.5-0.5B")
    beta: float = field(default=0.1, metadata={"help": "the beta parameter for DPO loss"})
    max_length: int = field(default=256)


parser = HfArgumentParser((ScriptArguments, TrainingArguments))
script_args, training_args = parser.parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained(script_args.model_name_or_path)
tokenizer = AutoTokenizer.from_pretrained(script_args.model_name_or_path)
trainer = DPOTrainer(
    model,
    args=training_args,
    beta=script_args.beta,
    max_length=script_args.max_length,
    train_dataset=load_dataset("argilla/dpo-mix-7k", split="train"),
    tokenizer=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
