# about: names that a trainer compares with those it knows.
import trl

args = trl.DPOConfig("out", truncation_mode="keep_middle", f_divergence_type="forward_kl")  # expect: MEM901
level = trl.GRPOConfig("out", importance_sampling_level="group")  # expect: MEM901
trl.DPOTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
trl.GRPOTrainer("Qwen/Qwen3-0.6B", args=level, reward_funcs=reward, train_dataset=dataset).train()
