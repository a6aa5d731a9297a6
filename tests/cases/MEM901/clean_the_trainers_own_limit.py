# about: The trainer's own limit.
from trl import GRPOTrainer

class Paired(GRPOTrainer):
    def __init__(self, *args, limit, **kwargs):
        super().__init__(*args, **kwargs)
        self.max_prompt_length = limit

    def cut(self, ids):
        return ids[:, -self.max_prompt_length :]
