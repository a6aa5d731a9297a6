from trl import CPOConfig, CPOTrainer, ORPOConfig

args = CPOConfig("out", gradient_checkpointing=True, beta=0.2)  # expect: MEM902
CPOTrainer(model, args=args, train_dataset=pairs, processing_class=tokenizer).train()

odds = ORPOConfig("odds", **{"gradient_checkpointing": False})  # expect: MEM902
