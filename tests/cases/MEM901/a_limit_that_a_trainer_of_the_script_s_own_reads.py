from trl import GRPOTrainer

class Paired(GRPOTrainer):
    def cut(self, ids):
        if self.max_prompt_length is not None:  # expect: MEM901
            ids = ids[:, -self.max_prompt_length :]  # expect: MEM901
        return ids
