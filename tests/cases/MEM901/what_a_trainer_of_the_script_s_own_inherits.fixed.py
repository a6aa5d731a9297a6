from transformers import Trainer


class Saving(Trainer):
    def _save(self, output_dir=None, state_dict=None):
        super()._save(output_dir, state_dict)
        if self.processing_class is not None:
            self.processing_class.save_pretrained(output_dir)


class SavingTwice(Saving):
    def save_twice(self, output_dir):
        self.processing_class.save_pretrained(output_dir)
