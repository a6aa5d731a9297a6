import deepspeed
from transformers import AutoModelForCausalLM


class Course:
    def __init__(self, settings):
        network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        network.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        network.train()
        self.engine, self.adam, *_ = deepspeed.initialize(model=network, config=settings)

    def attend(self, lessons):
        for batch in lessons:
            self.engine.backward(self.engine(**batch).loss)
            self.engine.step()


Course("stage.json").attend(loader)
