from trl import RLOOConfig, RLOOTrainer

ds_config = {
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    "bf16": {"enabled": True},
}
args = RLOOConfig("out", deepspeed=ds_config, ds3_gather_for_generation=False)
RLOOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset).train()
