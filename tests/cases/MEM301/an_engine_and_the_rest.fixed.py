import deepspeed
from transformers import AutoModelForCausalLM

network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
network.activation_checkpointing_enable(
    activation_checkpointing_kwargs={"use_reentrant": False},
)
network.train()
engine, *others = deepspeed.initialize(
    model=network, model_parameters=network.parameters(), config="stage.json"
)
for batch in loader:
    engine.backward(engine(**batch).loss)
    engine.step()
