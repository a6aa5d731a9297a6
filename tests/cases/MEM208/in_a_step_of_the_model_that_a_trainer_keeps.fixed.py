from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer


class Tutor(DPOTrainer):
    def get_batch_loss_metrics(self, net, batch, train_eval="train"):
        return self.score(self.words(net, batch), batch), {}

    def words(self, net, batch):
        answer = net(
            **{**batch["inputs"]},
            use_cache=False,
        )
        return answer.logits


def work(name):
    net = AutoModelForCausalLM.from_pretrained(name)
    Tutor(net, args=DPOConfig("out"), train_dataset=rows).train()


work("Qwen/Qwen3-0.6B")
