from trl import GRPOTrainer

class Paired(GRPOTrainer):
    def cut(self, ids):
        if getattr(self.args, "max_prompt_length", None) is not None:
            ids = ids[:, -getattr(self.args, "max_prompt_length", None) :]
        return ids
