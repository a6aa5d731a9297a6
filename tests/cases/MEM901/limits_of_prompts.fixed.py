from functools import partial

from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig
from trl.experimental.kto import KTOTrainer
from memlint_runtime import limit_prompts

both = GRPOConfig("both", max_prompt_length=512)
GRPOTrainer("a", reward_funcs=reward, args=both, train_dataset=rows)
GRPOTrainer("b", reward_funcs=reward, args=both, train_dataset=rows)
tools = GRPOConfig("tools", max_prompt_length=512)
GRPOTrainer("c", reward_funcs=reward, args=tools, train_dataset=rows, tools=[search])
answers = DPOConfig("answers")
DPOTrainer("d", args=answers, train_dataset=rows)
cut = DPOConfig("cut")
limit_prompts(DPOTrainer, 128)("e", args=cut, train_dataset=rows)
make = partial(DPOTrainer, args=DPOConfig("made", max_prompt_length=64))
make("f", train_dataset=rows)
