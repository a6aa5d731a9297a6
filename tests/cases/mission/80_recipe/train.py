# expect: MEM901

from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

parser = HfArgumentParser(TrainingArguments)
(args,) = parser.parse_yaml_file("train.yaml")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(model=model, args=args, train_dataset=dataset).train()
