import deepspeed
from transformers import AutoModelForCausalLM

network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")  # expect: MEM301
engine, *others = deepspeed.initialize(
    model=network, model_parameters=network.parameters(), config="stage.json"
)
for batch in loader:
    engine.backward(engine(**batch).loss)
    engine.step()
