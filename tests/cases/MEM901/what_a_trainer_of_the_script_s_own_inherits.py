from transformers import Trainer


class Saving(Trainer):
    def _save(self, output_dir=None, state_dict=None):
        super()._save(output_dir, state_dict)
        if self.tokenizer is not None:  # expect: MEM901
            self.tokenizer.save_pretrained(output_dir)  # expect: MEM901


class SavingTwice(Saving):
    def save_twice(self, output_dir):
        self.tokenizer.save_pretrained(output_dir)  # expect: MEM901
