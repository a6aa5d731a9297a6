from transformers import TrainingArguments
from trl import SFTConfig

args = TrainingArguments("out")
if True:
    clear(args.output_dir)
plain = TrainingArguments("out")
print(plain.overwrite_output_dir)
listed = TrainingArguments("out")
print(listed.overwrite_output_dir, plain.past_index, plain.eval_strategy)
