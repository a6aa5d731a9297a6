# about: The last line of the dict ends with a comment, and the comment with a blank: it moves once.
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    train_dataset=rows,
    args=SFTConfig("out"),
    dataset_kwargs={  # expect: MEM901
        "add_special_tokens": False,  # the template has them 
        "skip_prepare_dataset": False,  # plain texts 
    },
)
