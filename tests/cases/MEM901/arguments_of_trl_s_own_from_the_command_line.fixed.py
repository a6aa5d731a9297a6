from trl import SFTConfig, SFTTrainer, TrlParser

(args,) = TrlParser(SFTConfig).parse_args_and_config()
args.max_length = 4096
args.dataset_text_field = "body"
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
