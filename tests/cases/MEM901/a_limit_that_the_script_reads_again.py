from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)  # expect: MEM901
trainer = GRPOTrainer(model, reward_funcs=reward, args=args, train_dataset=dataset, processing_class=tokenizer)
print("prompts of", args.max_prompt_length, "tokens")  # expect: MEM901
