from trl import CPOConfig, CPOTrainer, ORPOConfig

args = CPOConfig("out", activation_checkpointing=True, beta=0.2)
CPOTrainer(model, args=args, train_dataset=pairs, processing_class=tokenizer).train()

odds = ORPOConfig("odds", **{"activation_checkpointing": False})
