# about: An option that is gone is what the script itself gave it, where that is known.
from transformers import TrainingArguments
from trl import SFTConfig

args = TrainingArguments("out", overwrite_output_dir=True)  # expect: MEM901
if args.overwrite_output_dir:  # expect: MEM901
    clear(args.output_dir)
plain = TrainingArguments("out")
print(plain.overwrite_output_dir)  # expect: MEM901
listed = TrainingArguments("out", overwrite_output_dir=wanted())  # expect: MEM901
print(listed.overwrite_output_dir, plain.past_index, plain.evaluation_strategy)  # expect: MEM901, MEM901, MEM901
