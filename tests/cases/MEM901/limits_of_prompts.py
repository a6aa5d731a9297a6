# about: Limits that the runtime keeps where one trainer takes them, by its words.
from functools import partial

from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig
from trl.experimental.kto import KTOTrainer

both = GRPOConfig("both", max_prompt_length=512)  # expect: MEM901
GRPOTrainer("a", reward_funcs=reward, args=both, train_dataset=rows)
GRPOTrainer("b", reward_funcs=reward, args=both, train_dataset=rows)
tools = GRPOConfig("tools", max_prompt_length=512)  # expect: MEM901
GRPOTrainer("c", reward_funcs=reward, args=tools, train_dataset=rows, tools=[search])
answers = DPOConfig("answers", max_completion_length=256)  # expect: MEM901
DPOTrainer("d", args=answers, train_dataset=rows)
cut = DPOConfig("cut", max_prompt_length=128, max_completion_length=256)  # expect: MEM901, MEM901
DPOTrainer("e", args=cut, train_dataset=rows)
make = partial(DPOTrainer, args=DPOConfig("made", max_prompt_length=64))  # expect: MEM901
make("f", train_dataset=rows)
