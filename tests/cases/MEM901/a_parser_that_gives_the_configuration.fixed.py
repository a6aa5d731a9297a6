from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser

script, args, model = TrlParser((Own, SFTConfig, ModelConfig)).parse_args_and_config()
args.max_length = script.limit
SFTTrainer(model.model_name_or_path, args=args)
