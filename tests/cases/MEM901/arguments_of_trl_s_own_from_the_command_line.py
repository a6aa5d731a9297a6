from trl import SFTConfig, SFTTrainer, TrlParser

(args,) = TrlParser(SFTConfig).parse_args_and_config()
args.max_seq_length = 4096  # expect: MEM901
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset, dataset_text_field="body")  # expect: MEM901
