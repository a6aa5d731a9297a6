# about: A configuration from the command line, and what the trainer is told beside it.
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser

script, args, model = TrlParser((Own, SFTConfig, ModelConfig)).parse_args_and_config()
SFTTrainer(model.model_name_or_path, args=args, max_seq_length=script.limit, packing=None)  # expect: MEM901, MEM901
